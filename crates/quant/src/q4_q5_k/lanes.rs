//! Q4_K and Q5_K, one block per lane.

use fearless_simd::{Simd, prelude::*};
use fearless_simd_macros::simd;

use super::{Layout, scalar};
use crate::{
    Rows,
    block::array_at_mut,
    k_scales::ELEMS,
    lanes::{encode_units, k_scales},
};

#[simd]
pub fn encode<S: Simd, T: Layout<B>, const B: usize, const W: usize>(
    simd: S,
    rows: Rows<'_>,
    out: &mut [u8],
) {
    let mut levels = [S::u32s::splat(simd, 0); ELEMS];
    encode_units::<S, ELEMS, B, W>(
        simd,
        rows,
        out,
        #[inline(always)]
        |_, x, importance, words| {
            let (top, head) = (T::MAX_LEVEL, array_at_mut(words, 0));
            let wild = match importance {
                None => k_scales::fit(simd, x, top, T::CANDIDATES, head, &mut levels),
                Some(importance) => {
                    k_scales::fit_weighted(simd, x, importance, top, T::MAX_SCALE, head, &mut levels)
                }
            };
            if T::FIVE {
                put_fifth_bits(simd, &levels, array_at_mut(words, 4));
            }
            k_scales::put_nibbles(simd, &levels, array_at_mut(words, W - 32));
            wild.to_bitmask()
        },
        scalar::encode::<T, B>,
    );
}

#[simd]
fn put_fifth_bits<S: Simd>(simd: S, levels: &[S::u32s; ELEMS], words: &mut [S::u32s; 8]) {
    let one = S::u32s::splat(simd, 1);
    for (at, word) in words.iter_mut().enumerate() {
        *word = S::u32s::splat(simd, 0);
        for byte in 0..4 {
            // Bit `sub` of byte `i` is the fifth bit of element `i` of that sub-block.
            for sub in 0..8 {
                let fifth = (levels[32 * sub + 4 * at + byte] >> 4) & one;
                *word |= fifth << (8 * byte + sub) as u32;
            }
        }
    }
}
