//! Q2_K to floats, one element per lane.

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
    let (scale, min) = (f16_at(block, 80), f16_at(block, 82));
    let three = S::u32s::splat(simd, 3);
    for (sub, values) in values.as_chunks_mut::<GROUP>().0.iter_mut().enumerate() {
        let sub_scale = S::f32s::splat(simd, scale * f32::from(block[sub] & 0x0f));
        let sub_min = S::f32s::splat(simd, min * f32::from(block[sub] >> 4));
        let (half, pair, side) = (sub / 8, sub % 8 / 2, sub % 2);
        sixteen(
            simd,
            [array_at(block, 16 + 32 * half + 16 * side)],
            values,
            #[inline(always)]
            |_, [bytes]| {
                let level = (bytes >> (2 * pair as u32)) & three;
                sub_scale * to_float(simd, level) - sub_min
            },
        );
    }
}
