//! Q5_K, a block a lane.

use fearless_simd::{Simd, prelude::*};
use fearless_simd_macros::simd;

use super::scalar::{self, BYTES, CANDIDATES, ELEMS};
use crate::{
    Rows,
    block::array_at_mut,
    lanes::{encode_units, encode_weighted_units, k_scales},
};

const WORDS: usize = BYTES / 4;

/// Encodes without importance weights.
#[simd]
pub fn encode<S: Simd>(simd: S, values: &[f32], out: &mut [u8]) {
    let blocks = values.as_chunks::<ELEMS>().0;
    let mut levels = [S::u32s::splat(simd, 0); ELEMS];
    encode_units::<S, ELEMS, BYTES, WORDS>(
        simd,
        values,
        out,
        #[inline(always)]
        |_, x, words| {
            let wild = k_scales::fit(simd, x, 31, CANDIDATES, array_at_mut(words, 0), &mut levels);
            put_levels(simd, &levels, words);
            wild.to_bitmask()
        },
        |index, block| scalar::encode(&blocks[index], block),
    );
}

/// Encodes with importance weights, of which `weights` holds a row.
#[simd]
pub fn encode_weighted<S: Simd>(simd: S, rows: Rows<'_>, weights: &[f32], out: &mut [u8]) {
    let mut levels = [S::u32s::splat(simd, 0); ELEMS];
    encode_weighted_units::<S, ELEMS, BYTES, WORDS>(
        simd,
        rows,
        weights,
        out,
        #[inline(always)]
        |x, importance, words| {
            let head = array_at_mut(words, 0);
            let wild = k_scales::fit_weighted(simd, x, importance, 31, 63, head, &mut levels);
            put_levels(simd, &levels, words);
            wild.to_bitmask()
        },
        scalar::encode_weighted,
    );
}

#[simd]
fn put_levels<S: Simd>(simd: S, levels: &[S::u32s; ELEMS], words: &mut [S::u32s; WORDS]) {
    let one = S::u32s::splat(simd, 1);
    for word in 0..8 {
        let mut fifths = S::u32s::splat(simd, 0);
        for byte in 0..4 {
            // Bit `sub` of byte `i` is the fifth bit of element `i` of that sub-block.
            for sub in 0..8 {
                let fifth = (levels[32 * sub + 4 * word + byte] >> 4) & one;
                fifths |= fifth << (8 * byte + sub) as u32;
            }
        }
        words[4 + word] = fifths;
    }
    k_scales::put_nibbles(simd, levels, array_at_mut(words, 12));
}
