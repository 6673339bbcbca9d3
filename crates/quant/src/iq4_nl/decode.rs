//! IQ4_NL to floats, one element per lane.

use fearless_simd::{Simd, prelude::*};
use fearless_simd_macros::simd;

use super::BYTES;
use crate::{
    block::{array_at, f16_at},
    iq_fit::nonlinear::SUB,
    lanes::{
        decode::{look_up, nibbles},
        nonlinear::{BIAS, LOWER},
    },
};

#[simd]
pub fn decode<S: Simd>(simd: S, block: &[u8; BYTES], values: &mut [f32; SUB]) {
    let scale = S::f32s::splat(simd, f16_at(block, 0));
    nibbles(
        simd,
        array_at(block, 2),
        values,
        #[inline(always)]
        |_, index| scale * look_up(simd, &LOWER, index, BIAS),
    );
}
