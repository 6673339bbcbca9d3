//! Q6_K, one block per lane.

use fearless_simd::{Simd, prelude::*};
use fearless_simd_macros::simd;

use super::scalar::{self, BYTES, ELEMS, SUB_ELEMS, SUBS};
use crate::{
    Rows,
    block::{array_at, array_at_mut},
    fit::SMALLEST_GROUP,
    lanes::{
        divide_to_levels, encode_units, half, nearest_int,
        signed::{Found, largest, signed},
    },
};

const WORDS: usize = BYTES.div_ceil(4);
const HALF: u8 = 32;

/// Encodes rows. Without importance weights, squares are the weights.
#[simd]
pub fn encode<S: Simd>(simd: S, rows: Rows<'_>, out: &mut [u8]) {
    let mut squares = [S::f32s::splat(simd, 0.0); ELEMS];
    let mut levels = [S::u32s::splat(simd, 0); ELEMS];
    encode_units::<S, ELEMS, BYTES, WORDS>(
        simd,
        rows,
        out,
        #[inline(always)]
        |_, x, importance, words| {
            if importance.is_none() {
                for (square, x) in squares.iter_mut().zip(x) {
                    *square = *x * *x;
                }
            }
            fit(simd, x, importance.unwrap_or(&squares), &mut levels, words)
        },
        scalar::encode,
    );
}

/// Encodes a unit with these weights and returns the wild lanes; `levels` is scratch space for all elements.
#[simd]
fn fit<S: Simd>(
    simd: S,
    x: &[S::f32s; ELEMS],
    w: &[S::f32s; ELEMS],
    levels: &mut [S::u32s; ELEMS],
    words: &mut [S::u32s; WORDS],
) -> u64 {
    let splat = |value: f32| S::f32s::splat(simd, value);
    let (zero, none) = (splat(0.0), S::u32s::splat(simd, 0));
    let mut wild = S::mask32s::splat(simd, false);
    let mut found = [Found::none(simd); SUBS];
    let mut scales = [zero; SUBS];
    for sub in 0..SUBS {
        let (x, w): (&[_; SUB_ELEMS], &[_; SUB_ELEMS]) =
            (array_at(x, sub * SUB_ELEMS), array_at(w, sub * SUB_ELEMS));
        found[sub] = signed(simd, x, w, HALF, &mut wild);
        scales[sub] = found[sub].scale;
        wild |= !scales[sub].simd_eq(scales[sub]);
    }
    // Scales become signed bytes, the one of largest magnitude -128.
    let (max_scale, magnitude) = largest(simd, &scales);
    let empty_block = magnitude.simd_lt(splat(SMALLEST_GROUP));
    let inv_scale = splat(-128.0) / max_scale;
    let (scale_bits, scale) = half(simd, splat(1.0) / inv_scale);
    words[48..52].fill(none);
    for sub in 0..SUBS {
        let level = nearest_int(simd, inv_scale * scales[sub]).bitcast::<S::i32s>();
        let level = level.min(S::i32s::splat(simd, 127));
        words[48 + sub / 4] |=
            (level.bitcast::<S::u32s>() & S::u32s::splat(simd, 0xff)) << (8 * (sub % 4) as u32);
        let sub_scale = scale * level.to_float::<S::f32s>();
        let x: &[S::f32s; SUB_ELEMS] = array_at(x, sub * SUB_ELEMS);
        let levels: &mut [S::u32s; SUB_ELEMS] = array_at_mut(levels, sub * SUB_ELEMS);
        divide_to_levels(simd, x, None, sub_scale, -i32::from(HALF), i32::from(HALF) - 1, levels);
        // Without a scale the levels of the search stay.
        let lost = sub_scale.simd_eq(zero);
        if lost.any_true() {
            for i in 0..SUB_ELEMS {
                levels[i] = lost.select(found[sub].searched_level(simd, x[i], HALF), levels[i]);
            }
        }
    }
    words[52] = scale_bits;
    put_levels(simd, levels, words);
    if empty_block.any_true() {
        for word in words {
            *word = empty_block.select(none, *word);
        }
    }
    wild.to_bitmask()
}

#[simd]
fn put_levels<S: Simd>(simd: S, levels: &[S::u32s; ELEMS], words: &mut [S::u32s; WORDS]) {
    let (nibble, none) = (S::u32s::splat(simd, 0x0f), S::u32s::splat(simd, 0));
    for (half, levels) in levels.as_chunks::<128>().0.iter().enumerate() {
        for at in 0..16 {
            let mut word = none;
            for byte in 0..4 {
                let i = 4 * at + byte;
                word |= ((levels[i] & nibble) | ((levels[i + 64] & nibble) << 4)) << (8 * byte) as u32;
            }
            words[16 * half + at] = word;
        }
        for at in 0..8 {
            let mut word = none;
            for byte in 0..4 {
                // Two upper bits of four elements, a quarter apart, in a byte.
                for quarter in 0..4 {
                    let high = levels[32 * quarter + 4 * at + byte] >> 4;
                    word |= high << (8 * byte + 2 * quarter) as u32;
                }
            }
            words[32 + 8 * half + at] = word;
        }
    }
}
