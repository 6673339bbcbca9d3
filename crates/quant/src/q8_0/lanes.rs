//! Q8_0, one element per lane.

use fearless_simd::Simd;
use fearless_simd_macros::simd;

use super::scalar::{self, BYTES};
use crate::lanes::elements;

#[simd]
pub fn encode<S: Simd>(simd: S, values: &[f32], out: &mut [u8]) {
    elements::encode::<S, BYTES>(
        simd,
        values,
        out,
        #[inline(always)]
        |values, blocks| elements::bytes(simd, values, blocks),
        scalar::encode,
    );
}
