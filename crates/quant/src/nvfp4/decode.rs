//! NVFP4 to floats, one element per lane.

use fearless_simd::{Simd, prelude::*};
use fearless_simd_macros::simd;

use super::scalar::{BYTES, ELEMS, SUBS, half_of_ue4m3};
use crate::{
    block::array_at,
    e2m1,
    lanes::decode::{GROUP, look_up, sixteen},
};

#[simd]
pub fn decode<S: Simd>(simd: S, block: &[u8; BYTES], values: &mut [f32; ELEMS]) {
    for (sub, values) in values.as_chunks_mut::<GROUP>().0.iter_mut().enumerate() {
        let scale = S::f32s::splat(simd, half_of_ue4m3(block[sub]));
        let packed = u64::from_le_bytes(*array_at(block, SUBS + 8 * sub));
        let low = packed & 0x0f0f_0f0f_0f0f_0f0f;
        let high = (packed >> 4) & 0x0f0f_0f0f_0f0f_0f0f;
        let indices = (u128::from(low) | (u128::from(high) << 64)).to_le_bytes();
        sixteen(
            simd,
            [&indices],
            values,
            #[inline(always)]
            |_, [index]| look_up(simd, &e2m1::BIASED, index, e2m1::BIAS) * scale,
        );
    }
}
