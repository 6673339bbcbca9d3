//! MXFP4, one element per lane: the choice among the values is slow, and it depends on one element only.

use fearless_simd::Simd;
use fearless_simd_macros::simd;

use super::scalar;
use crate::{block::encode_blocks, e2m1};

/// Encodes.
#[simd]
pub fn encode<S: Simd>(simd: S, values: &[f32], out: &mut [u8]) {
    encode_blocks(
        values,
        out,
        #[inline(always)]
        |values, block| {
            scalar::encode_with(
                values,
                block,
                #[inline(always)]
                |numbers, scale| e2m1::nearest_lanes(simd, numbers, scale),
            );
        },
    );
}
