//! Q3_K, one block per lane.

use fearless_simd::{Simd, prelude::*};
use fearless_simd_macros::simd;

use super::scalar::{self, BYTES, ELEMS, SUB_ELEMS, SUBS};
use crate::{
    Rows,
    block::{array_at, array_at_mut},
    lanes::{
        descent::{Scratch, signed_by_descent},
        divide_to_levels, encode_units, half,
        signed::{Found, largest, signed, stored_level},
        sum_of_squares, two_bits,
    },
};

const WORDS: usize = BYTES.div_ceil(4);
/// Lowest level, negated.
const HALF: u8 = 4;
/// Lowest scale, negated.
const SCALE_HALF: u8 = 32;

#[simd]
pub fn encode<S: Simd>(simd: S, rows: Rows<'_>, out: &mut [u8]) {
    let (mut scratch, mut levels) = (Scratch::new(), [S::u32s::splat(simd, 0); ELEMS]);
    encode_units::<S, ELEMS, BYTES, WORDS>(
        simd,
        rows,
        out,
        #[inline(always)]
        |first, x, importance, words| match importance {
            None => fit(simd, &mut scratch, rows.values, first, x, &mut levels, words),
            Some(importance) => fit_weighted(simd, x, importance, &mut levels, words),
        },
        scalar::encode,
    );
}

#[simd]
fn fit<S: Simd>(
    simd: S,
    scratch: &mut Scratch,
    values: &[f32],
    first: usize,
    x: &[S::f32s; ELEMS],
    levels: &mut [S::u32s; ELEMS],
    words: &mut [S::u32s; WORDS],
) -> u64 {
    let splat = |value: f32| S::f32s::splat(simd, value);
    let (zero, none) = (splat(0.0), S::u32s::splat(simd, 0));
    let mut found = [Found::none(simd); SUBS];
    let (mut wild, moved) = signed_by_descent(simd, scratch, values, first, x, HALF, &mut found);
    let mut scales = [zero; SUBS];
    for sub in 0..SUBS {
        scales[sub] = found[sub].scale;
        wild |= !scales[sub].simd_eq(scales[sub]);
    }
    let (max_scale, _) = largest(simd, &scales);
    // Without any scale, all levels of scales and the block's own are stored as 0.
    let no_scale = max_scale.simd_eq(zero);
    let inv_scale = splat(-32.0) / max_scale;
    let mut scale_levels = [none; SUBS];
    for sub in 0..SUBS {
        scale_levels[sub] = no_scale.select(none, stored_level(simd, inv_scale * scales[sub], SCALE_HALF));
    }
    let scale = no_scale.select(zero, splat(1.0) / inv_scale);
    let lost = finish(simd, x, &scale_levels, scale, &found, levels, words);
    let mut wild = wild.to_bitmask();
    for sub in 0..SUBS {
        // A sub-block whose scale is lost keeps the levels of the descent, which are not available here if
        // any moved.
        wild |= lost[sub] & moved[sub];
    }
    wild
}

#[simd]
fn fit_weighted<S: Simd>(
    simd: S,
    x: &[S::f32s; ELEMS],
    importance: &[S::f32s; ELEMS],
    levels: &mut [S::u32s; ELEMS],
    words: &mut [S::u32s; WORDS],
) -> u64 {
    let splat = |value: f32| S::f32s::splat(simd, value);
    let (zero, none) = (splat(0.0), S::u32s::splat(simd, 0));
    let mut wild = S::mask32s::splat(simd, false);
    let sigma2 = splat(2.0) * sum_of_squares(simd, x) / splat(256.0);
    let mut found = [Found::none(simd); SUBS];
    let (mut scales, mut sum_w) = ([zero; SUBS], [zero; SUBS]);
    for sub in 0..SUBS {
        let importance: &[S::f32s; SUB_ELEMS] = array_at(importance, sub * SUB_ELEMS);
        let x: &[S::f32s; SUB_ELEMS] = array_at(x, sub * SUB_ELEMS);
        let mut w = [zero; SUB_ELEMS];
        for i in 0..SUB_ELEMS {
            w[i] = importance[i] * (sigma2 + x[i] * x[i]).sqrt();
            sum_w[sub] += w[i];
        }
        found[sub] = signed(simd, x, &w, HALF, &mut wild);
        scales[sub] = found[sub].scale;
    }
    let scale_fit = signed(simd, &scales, &sum_w, SCALE_HALF, &mut wild);
    wild |= !scale_fit.scale.simd_eq(scale_fit.scale);
    let mut scale_levels = [none; SUBS];
    for sub in 0..SUBS {
        scale_levels[sub] = scale_fit.searched_level(simd, scales[sub], SCALE_HALF);
    }
    finish(simd, x, &scale_levels, scale_fit.scale, &found, levels, words);
    wild.to_bitmask()
}

/// Like the scalar `finish`. Returns for each sub-block the lanes that keep the levels of the search, for
/// which those of `found` are used. `levels` is scratch space for all elements.
#[simd]
fn finish<S: Simd>(
    simd: S,
    x: &[S::f32s; ELEMS],
    scale_levels: &[S::u32s; SUBS],
    scale: S::f32s,
    found: &[Found<S>; SUBS],
    levels: &mut [S::u32s; ELEMS],
    words: &mut [S::u32s; WORDS],
) -> [u64; SUBS] {
    let zero = S::f32s::splat(simd, 0.0);
    let (scale_bits, scale) = half(simd, scale);
    let mut lost = [0; SUBS];
    for sub in 0..SUBS {
        let level: S::f32s = scale_levels[sub].to_float();
        let d = scale * (level - S::f32s::splat(simd, 32.0));
        let x: &[S::f32s; SUB_ELEMS] = array_at(x, sub * SUB_ELEMS);
        let levels: &mut [S::u32s; SUB_ELEMS] = array_at_mut(levels, sub * SUB_ELEMS);
        divide_to_levels(simd, x, None, d, -i32::from(HALF), i32::from(HALF) - 1, levels);
        // Without a scale the levels of the search stay.
        let keeps = d.simd_eq(zero);
        if keeps.any_true() {
            lost[sub] = keeps.to_bitmask();
            for i in 0..SUB_ELEMS {
                levels[i] = keeps.select(found[sub].searched_level(simd, x[i], HALF), levels[i]);
            }
        }
    }
    put_levels(simd, levels, words);
    put_scales(simd, scale_levels, array_at_mut(words, 24));
    words[27] = scale_bits;
    lost
}

#[simd]
fn put_levels<S: Simd>(simd: S, levels: &[S::u32s; ELEMS], words: &mut [S::u32s; WORDS]) {
    let one = S::u32s::splat(simd, 1);
    for at in 0..8 {
        let mut thirds = S::u32s::splat(simd, 0);
        for byte in 0..4 {
            // Bit `octant` of byte `i` is the third bit of element `32 * octant + i`.
            for octant in 0..8 {
                let third = (levels[32 * octant + 4 * at + byte] >> 2) & one;
                thirds |= third << (8 * byte + octant) as u32;
            }
        }
        words[at] = thirds;
    }
    two_bits::pack(simd, levels, array_at_mut(words, 8));
}

#[simd]
fn put_scales<S: Simd>(simd: S, levels: &[S::u32s; SUBS], words: &mut [S::u32s; 3]) {
    let nibble = S::u32s::splat(simd, 0x0f);
    *words = [S::u32s::splat(simd, 0); 3];
    for i in 0..8 {
        let both = (levels[i] & nibble) | ((levels[i + 8] & nibble) << 4);
        words[i / 4] |= both << (8 * (i % 4)) as u32;
    }
    for i in 0..SUBS {
        words[2] |= (levels[i] >> 4) << (8 * (i % 4) + 2 * (i / 4)) as u32;
    }
}
