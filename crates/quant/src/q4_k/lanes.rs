//! Q4_K, a block a lane.

use fearless_simd::{Simd, prelude::*};
use fearless_simd_macros::simd;

use super::scalar::{self, BYTES, CANDIDATES, ELEMS};
use crate::{
    block::array_at_mut,
    lanes::{encode_units, k_scales},
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
            let wild = k_scales::fit(simd, x, 15, CANDIDATES, array_at_mut(words, 0), &mut levels);
            put_levels(simd, &levels, array_at_mut(words, 4));
            wild.to_bitmask()
        },
        |index, block| scalar::encode(&blocks[index], block),
    );
}

#[simd]
fn put_levels<S: Simd>(simd: S, levels: &[S::u32s; ELEMS], words: &mut [S::u32s; 32]) {
    for (levels, words) in levels.as_chunks::<64>().0.iter().zip(words.as_chunks_mut::<8>().0) {
        for (at, word) in words.iter_mut().enumerate() {
            *word = S::u32s::splat(simd, 0);
            for byte in 0..4 {
                let i = 4 * at + byte;
                let both = levels[i] | (levels[i + 32] << 4);
                *word |= both << (8 * byte as u32);
            }
        }
    }
}
