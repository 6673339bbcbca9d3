//! Q4_K and Q5_K to floats, one element per lane.

use fearless_simd::{Simd, prelude::*};
use fearless_simd_macros::simd;

use super::Layout;
use crate::{
    block::array_at,
    k_scales::{self, ELEMS},
    lanes::{
        decode::{GROUP, sixteen},
        to_float,
    },
};

#[simd]
pub fn decode<S: Simd, T: Layout<B>, const B: usize>(simd: S, block: &[u8; B], values: &mut [f32; ELEMS]) {
    let (scales, mins) = k_scales::read(array_at(block, 0));
    let (one, low_bits) = (S::u32s::splat(simd, 1), S::u32s::splat(simd, 0x0f));
    for (group, values) in values.as_chunks_mut::<GROUP>().0.iter_mut().enumerate() {
        let (sub, side) = (group / 2, group % 2);
        let scale = S::f32s::splat(simd, scales[sub]);
        let min = S::f32s::splat(simd, mins[sub]);
        sixteen(
            simd,
            [array_at(block, B - 128 + 32 * (sub / 2) + 16 * side), array_at(block, 16 + 16 * side)],
            values,
            #[inline(always)]
            |_, [bytes, fifth]| {
                let mut level = (bytes >> (4 * (sub as u32 % 2))) & low_bits;
                if T::FIVE {
                    level |= ((fifth >> sub as u32) & one) << 4;
                }
                scale * to_float(simd, level) - min
            },
        );
    }
}
