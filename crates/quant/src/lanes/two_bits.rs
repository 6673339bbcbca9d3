//! [`two_bits`](crate::two_bits), one block per lane: the common part of Q2_K and Q3_K.

use fearless_simd::{Simd, prelude::*};
use fearless_simd_macros::simd;

/// The low two bits of all levels.
#[simd]
pub fn pack<S: Simd>(simd: S, levels: &[S::u32s; 256], words: &mut [S::u32s; 16]) {
    let low = S::u32s::splat(simd, 3);
    for (levels, words) in levels.as_chunks::<128>().0.iter().zip(words.as_chunks_mut::<8>().0) {
        for (at, word) in words.iter_mut().enumerate() {
            *word = S::u32s::splat(simd, 0);
            for byte in 0..4 {
                for quarter in 0..4 {
                    let level = levels[32 * quarter + 4 * at + byte] & low;
                    *word |= level << (8 * byte + 2 * quarter) as u32;
                }
            }
        }
    }
}
