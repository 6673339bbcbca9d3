//! Q6_K to floats, one element per lane.

use fearless_simd::{Simd, prelude::*};
use fearless_simd_macros::simd;

use super::scalar::{BYTES, ELEMS};
use crate::{
    block::{array_at, f16_at},
    lanes::{
        decode::{GROUP, sixteen},
        to_float,
    },
};

#[simd]
pub fn decode<S: Simd>(simd: S, block: &[u8; BYTES], values: &mut [f32; ELEMS]) {
    let scale = f16_at(block, 208);
    let (three, low_bits, middle) =
        (S::u32s::splat(simd, 3), S::u32s::splat(simd, 0x0f), S::f32s::splat(simd, 32.0));
    for (sub, values) in values.as_chunks_mut::<GROUP>().0.iter_mut().enumerate() {
        let sub_scale = S::f32s::splat(simd, scale * f32::from(block[192 + sub] as i8));
        let (half, quarter, side) = (sub / 8, sub % 8 / 2, sub % 2);
        let low = array_at(block, 64 * half + 32 * (quarter % 2) + 16 * side);
        sixteen(
            simd,
            [low, array_at(block, 128 + 32 * half + 16 * side)],
            values,
            #[inline(always)]
            |_, [low, high]| {
                let low = (low >> (4 * (quarter as u32 / 2))) & low_bits;
                let level = low | (((high >> (2 * quarter as u32)) & three) << 4);
                sub_scale * (to_float(simd, level) - middle)
            },
        );
    }
}
