//! IQ1_M to floats, one element per lane.

use fearless_simd::{Simd, prelude::*};
use fearless_simd_macros::simd;

use super::BYTES;
use crate::{
    block::u16_at,
    grids::IQ1_VALUES,
    iq_fit::{SUPER, ternary::DELTA},
    lanes::{
        decode::{GROUP, join, sixteen, with_signs},
        to_float,
    },
    round::f16_to_f32,
};

#[simd]
pub fn decode<S: Simd>(simd: S, block: &[u8; BYTES], values: &mut [f32; SUPER]) {
    let words: [u16; 4] = std::array::from_fn(|at| u16_at(block, 48 + 2 * at));
    let half = words.iter().rev().fold(0, |half, word| half << 4 | word >> 12);
    let d = f16_to_f32(half);
    let (one, byte) = (S::u32s::splat(simd, 1), S::u32s::splat(simd, 0xff));
    for (pair, values) in values.as_chunks_mut::<GROUP>().0.iter_mut().enumerate() {
        let scale = d * f32::from(2 * (words[pair / 4] >> (3 * (pair % 4)) & 7) + 1);
        let heads = block[32 + pair];
        let points = join([0, 1].map(|i| {
            let high = usize::from(heads >> (4 * i) & 7);
            IQ1_VALUES[usize::from(block[2 * pair + i]) | high << 8]
        }));
        let shifts = (if heads & 8 != 0 { 0x00ff } else { 0 }) | (if heads & 0x80 != 0 { 0xff00 } else { 0 });
        let scale = S::f32s::splat(simd, scale);
        sixteen(
            simd,
            [&points],
            values,
            #[inline(always)]
            |first, [point]| {
                // -1, 0 and 1 in two's complement.
                let level = to_float(simd, (point + one) & byte) - S::f32s::splat(simd, 1.0);
                scale * (level + with_signs(simd, DELTA, shifts, first))
            },
        );
    }
}
