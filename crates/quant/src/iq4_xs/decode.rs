//! IQ4_XS to floats, one element per lane.

use fearless_simd::{Simd, prelude::*};
use fearless_simd_macros::simd;

use super::BYTES;
use crate::{
    block::{array_at, f16_at, u16_at},
    iq_fit::{SUPER, nonlinear::SUB},
    lanes::{
        decode::{look_up, nibbles},
        nonlinear::{BIAS, LOWER},
    },
};

#[simd]
pub fn decode<S: Simd>(simd: S, block: &[u8; BYTES], values: &mut [f32; SUPER]) {
    let d = f16_at(block, 0);
    let high_bits = u16_at(block, 2);
    for (at, values) in values.as_chunks_mut::<SUB>().0.iter_mut().enumerate() {
        let low = i32::from(block[4 + at / 2] >> (4 * (at % 2)) & 15);
        let high = i32::from(high_bits >> (2 * at) & 3);
        let scale = S::f32s::splat(simd, d * (low + 16 * high - 32) as f32);
        nibbles(
            simd,
            array_at(block, 8 + 16 * at),
            values,
            #[inline(always)]
            |_, index| scale * look_up(simd, &LOWER, index, BIAS),
        );
    }
}
