//! Q5_1, a block a lane.

use fearless_simd::{Simd, prelude::*};
use fearless_simd_macros::simd;

use super::scalar::{self, BYTES, ELEMS};
use crate::{
    Rows,
    fit::WEIGHTED,
    lanes::{
        elements,
        halves::to_half,
        scale_and_min::{Found, scale_and_min, searched_level},
        thirty_two,
    },
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
        |values, blocks| elements::ranged(simd, values, 16, blocks),
        scalar::encode,
    );
}

/// Encodes with importance weights, of which `weights` holds a row.
#[simd]
pub fn encode_weighted<S: Simd>(simd: S, rows: Rows<'_>, weights: &[f32], out: &mut [u8]) {
    let mut levels = [S::u32s::splat(simd, 0); ELEMS];
    thirty_two::encode_weighted::<S, BYTES, WORDS, 4>(
        simd,
        rows,
        weights,
        out,
        #[inline(always)]
        |x, w, words| {
            let mut found = [[Found::none(simd); 2]; 2];
            let wild = scale_and_min::<S, ELEMS, 2, false>(
                simd,
                [[&x[0], &x[1]], [&x[2], &x[3]]],
                [[&w[0], &w[1]], [&w[2], &w[3]]],
                31,
                WEIGHTED,
                &mut found,
            );
            for g in 0..4 {
                let (x, words, found) = (&x[g], &mut words[g], &found[g / 2][g % 2]);
                for i in 0..ELEMS {
                    levels[i] = searched_level(simd, found, x[i], 31);
                }
                words.fill(S::u32s::splat(simd, 0));
                words[1] = thirty_two::take_fifth_bits(simd, &mut levels);
                words[0] = to_half(simd, found.scale) | (to_half(simd, -found.min) << 16);
                thirty_two::put_nibbles(simd, &levels, 8, words);
            }
            [wild.to_bitmask(); 4]
        },
        scalar::encode_weighted,
    );
}
