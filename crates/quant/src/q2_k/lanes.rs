//! Q2_K, one block per lane.

use fearless_simd::{Simd, prelude::*};
use fearless_simd_macros::simd;

use super::scalar::{self, BYTES, CANDIDATES, ELEMS, SUB_ELEMS, SUBS};
use crate::{
    Rows,
    block::{array_at, array_at_mut},
    fit::{Candidates, WEIGHTED},
    lanes::{
        divide_to_levels, encode_units, half, nearest_int,
        scale_and_min::{Found, scale_and_min, searched_level},
        sum_of_squares, to_float, two_bits,
        unsigned::unsigned,
    },
};

const WORDS: usize = BYTES / 4;
/// Sub-blocks of a block that are searched together.
const BATCH: usize = 4;

#[simd]
pub fn encode<S: Simd>(simd: S, rows: Rows<'_>, out: &mut [u8]) {
    encode_units::<S, ELEMS, BYTES, WORDS>(
        simd,
        rows,
        out,
        #[inline(always)]
        |_, x, importance, words| {
            let wild = match importance {
                None => fit(simd, x, words),
                Some(importance) => fit_weighted(simd, x, importance, words),
            };
            wild.to_bitmask()
        },
        scalar::encode,
    );
}

#[simd]
fn fit<S: Simd>(simd: S, x: &[S::f32s; ELEMS], words: &mut [S::u32s; WORDS]) -> S::mask32s {
    let splat = |value: f32| S::f32s::splat(simd, value);
    let zero = splat(0.0);
    let mut w = *x;
    for w in &mut w {
        *w = w.abs();
    }
    let mut found = [[Found::none(simd); 2]; SUBS / 2];
    let wild = search::<S, true>(simd, x, &w, CANDIDATES, &mut found);
    // The integers of scales and minima: steps of the largest over 15.
    let (mut max_scale, mut max_min) = (zero, zero);
    for found in found.as_flattened() {
        max_scale = found.scale.simd_gt(max_scale).select(found.scale, max_scale);
        max_min = found.min.simd_gt(max_min).select(found.min, max_min);
    }
    let inv_scale = max_scale.simd_gt(zero).select(splat(15.0) / max_scale, zero);
    let inv_min = max_min.simd_gt(zero).select(splat(15.0) / max_min, zero);
    let mut numbers = [[S::u32s::splat(simd, 0); SUBS]; 2];
    for (sub, found) in found.as_flattened().iter().enumerate() {
        numbers[0][sub] = nearest_int(simd, inv_scale * found.scale);
        numbers[1][sub] = nearest_int(simd, inv_min * found.min);
    }
    let block = [max_scale / splat(15.0), max_min / splat(15.0)];
    finish(simd, x, block, &numbers, found.as_flattened(), words);
    wild
}

#[simd]
fn fit_weighted<S: Simd>(
    simd: S,
    x: &[S::f32s; ELEMS],
    importance: &[S::f32s; ELEMS],
    words: &mut [S::u32s; WORDS],
) -> S::mask32s {
    let splat = |value: f32| S::f32s::splat(simd, value);
    let zero = splat(0.0);
    let sigma2 = sum_of_squares(simd, x) / splat(256.0);
    let mut w = *importance;
    let mut sum_w = [zero; SUBS];
    for i in 0..SUB_ELEMS {
        for sub in 0..SUBS {
            let at = sub * SUB_ELEMS + i;
            w[at] *= (sigma2 + x[at] * x[at]).sqrt();
            sum_w[sub] += w[at];
        }
    }
    let mut found = [[Found::none(simd); 2]; SUBS / 2];
    let wild = search::<S, false>(simd, x, &w, WEIGHTED, &mut found);
    // The integers of scales and minima, searched with the weights of the sub-blocks.
    let mut ideal = [[zero; SUBS]; 2];
    for (sub, found) in found.as_flattened().iter().enumerate() {
        ideal[0][sub] = found.scale;
        ideal[1][sub] = found.min;
    }
    let mut numbers = [[S::u32s::splat(simd, 0); SUBS]; 2];
    let [scale, min] = unsigned(simd, ideal.each_ref(), [&sum_w; 2], 15, &mut numbers);
    finish(simd, x, [scale, min], &numbers, found.as_flattened(), words);
    wild | !(scale.simd_eq(scale) & min.simd_eq(min))
}

/// Searches all sub-blocks of all lanes.
#[simd]
fn search<S: Simd, const MAGNITUDES: bool>(
    simd: S,
    x: &[S::f32s; ELEMS],
    w: &[S::f32s; ELEMS],
    candidates: Candidates,
    found: &mut [[Found<S>; 2]; SUBS / 2],
) -> S::mask32s {
    let mut wild = S::mask32s::splat(simd, false);
    for batch in 0..SUBS / BATCH {
        let x: &[[S::f32s; SUB_ELEMS]; BATCH] = array_at(x.as_chunks().0, batch * BATCH);
        let w: &[[S::f32s; SUB_ELEMS]; BATCH] = array_at(w.as_chunks().0, batch * BATCH);
        wild |= scale_and_min::<S, SUB_ELEMS, { BATCH / 2 }, MAGNITUDES>(
            simd,
            [[&x[0], &x[1]], [&x[2], &x[3]]],
            [[&w[0], &w[1]], [&w[2], &w[3]]],
            3,
            candidates,
            array_at_mut(found, batch * BATCH / 2),
        );
    }
    wild
}

/// Like the scalar `finish`, with the unpacked integers of the sub-blocks' scales and minima.
#[simd]
fn finish<S: Simd>(
    simd: S,
    x: &[S::f32s; ELEMS],
    [scale, min]: [S::f32s; 2],
    numbers: &[[S::u32s; SUBS]; 2],
    found: &[Found<S>],
    words: &mut [S::u32s; WORDS],
) {
    let none = S::u32s::splat(simd, 0);
    let (nibble, low_byte) = (S::u32s::splat(simd, 0x0f), S::u32s::splat(simd, 0xff));
    let (scale_bits, scale) = half(simd, scale);
    let (min_bits, min) = half(simd, min);
    words[..4].fill(none);
    words[20] = scale_bits | (min_bits << 16);
    let mut levels = [none; ELEMS];
    for sub in 0..SUBS {
        // An integer that wrapped overflows into its neighbor, like in the byte of the reference.
        let packed = (numbers[0][sub] | (numbers[1][sub] << 4)) & low_byte;
        words[sub / 4] |= packed << (8 * (sub % 4)) as u32;
        let d = scale * to_float(simd, packed & nibble);
        let m = min * to_float(simd, packed >> 4);
        let x: &[S::f32s; SUB_ELEMS] = array_at(x, sub * SUB_ELEMS);
        let levels: &mut [S::u32s; SUB_ELEMS] = array_at_mut(&mut levels, sub * SUB_ELEMS);
        divide_to_levels(simd, x, Some(m), d, 0, 3, levels);
        // Without a scale the levels of the search stay.
        let keeps = d.simd_eq(S::f32s::splat(simd, 0.0));
        if keeps.any_true() {
            for i in 0..SUB_ELEMS {
                levels[i] = keeps.select(searched_level(simd, &found[sub], x[i], 3), levels[i]);
            }
        }
    }
    two_bits::pack(simd, &levels, array_at_mut(words, 4));
}
