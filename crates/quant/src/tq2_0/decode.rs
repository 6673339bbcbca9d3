//! TQ2_0 to floats, one element per lane.

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
    let scale = S::f32s::splat(simd, f16_at(block, 64));
    let (three, one) = (S::u32s::splat(simd, 3), S::f32s::splat(simd, 1.0));
    for (sub, values) in values.as_chunks_mut::<GROUP>().0.iter_mut().enumerate() {
        let (half, pair, side) = (sub / 8, sub % 8 / 2, sub % 2);
        sixteen(
            simd,
            [array_at(block, 32 * half + 16 * side)],
            values,
            #[inline(always)]
            |_, [bytes]| {
                let level = (bytes >> (2 * pair as u32)) & three;
                (to_float(simd, level) - one) * scale
            },
        );
    }
}
