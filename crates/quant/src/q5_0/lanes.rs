//! Q5_0, a block a lane.

use fearless_simd::{Simd, prelude::*};
use fearless_simd_macros::simd;

use super::scalar::{self, BYTES, ELEMS};
use crate::{
    Rows,
    lanes::{elements, halves::to_half, signed::signed, thirty_two},
};

const WORDS: usize = BYTES.div_ceil(4);

/// Encodes without importance weights.
#[simd]
pub fn encode<S: Simd>(simd: S, values: &[f32], out: &mut [u8]) {
    elements::encode::<S, BYTES>(
        simd,
        values,
        out,
        #[inline(always)]
        |values, blocks| elements::signed(simd, values, 16, blocks),
        scalar::encode,
    );
}

/// Encodes with importance weights, of which `weights` holds a row.
#[simd]
pub fn encode_weighted<S: Simd>(simd: S, rows: Rows<'_>, weights: &[f32], out: &mut [u8]) {
    let mut levels = [S::u32s::splat(simd, 0); ELEMS];
    thirty_two::encode_weighted::<S, BYTES, WORDS, 1>(
        simd,
        rows,
        weights,
        out,
        #[inline(always)]
        |[x], [w], [words]| {
            let mut wild = S::mask32s::splat(simd, false);
            let found = signed(simd, x, w, 16, &mut wild);
            for i in 0..ELEMS {
                levels[i] = found.searched_level(simd, x[i], 16);
            }
            words.fill(S::u32s::splat(simd, 0));
            let fifth = thirty_two::take_fifth_bits(simd, &mut levels);
            words[0] = to_half(simd, found.scale) | (fifth << 16);
            words[1] = fifth >> 16;
            thirty_two::put_nibbles(simd, &levels, 6, words);
            [wild.to_bitmask()]
        },
        scalar::encode_weighted,
    );
}
