//! MXFP4 to floats, one element per lane.

use fearless_simd::{Simd, prelude::*};
use fearless_simd_macros::simd;

use super::scalar::{BYTES, ELEMS, half_of_e8m0};
use crate::{
    block::array_at,
    e2m1,
    lanes::decode::{look_up, nibbles},
};

#[simd]
pub fn decode<S: Simd>(simd: S, block: &[u8; BYTES], values: &mut [f32; ELEMS]) {
    let scale = S::f32s::splat(simd, half_of_e8m0(block[0]));
    nibbles(
        simd,
        array_at(block, 1),
        values,
        #[inline(always)]
        |_, index| look_up(simd, &e2m1::BIASED, index, e2m1::BIAS) * scale,
    );
}
