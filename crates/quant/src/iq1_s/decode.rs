//! IQ1_S to floats, one element per lane.

use fearless_simd::{Simd, prelude::*};
use fearless_simd_macros::simd;

use super::BYTES;
use crate::{
    block::{f16_at, u16_at},
    grids::IQ1_VALUES,
    iq_fit::{SUPER, ternary::DELTA},
    lanes::{
        decode::{GROUP, join, sixteen, with_signs},
        to_float,
    },
};

#[simd]
pub fn decode<S: Simd>(simd: S, block: &[u8; BYTES], values: &mut [f32; SUPER]) {
    let d = f16_at(block, 0);
    let (one, byte) = (S::u32s::splat(simd, 1), S::u32s::splat(simd, 0xff));
    for (pair, values) in values.as_chunks_mut::<GROUP>().0.iter_mut().enumerate() {
        let head = u16_at(block, 34 + pair / 2 * 2);
        let scale = d * f32::from(2 * ((head >> 12) & 7) + 1);
        let points = join([0, 1].map(|i| {
            let group = 2 * pair + i;
            let high = usize::from(head >> (3 * (group % 4)) & 7);
            IQ1_VALUES[usize::from(block[2 + group]) | high << 8]
        }));
        let shifts = if head & 0x8000 != 0 { u16::MAX } else { 0 };
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
