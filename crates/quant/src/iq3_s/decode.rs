//! IQ3_S to floats, an element a lane.

use fearless_simd::Simd;
use fearless_simd_macros::simd;

use super::BYTES;
use crate::{
    block::{f16_at, u16_at},
    grids::IQ3_S_VALUES,
    iq_fit::SUPER,
    lanes::decode::{GROUP, signed_values},
};

/// Decodes a block.
#[simd]
pub fn decode<S: Simd>(simd: S, block: &[u8; BYTES], values: &mut [f32; SUPER]) {
    let d = f16_at(block, 0);
    for (pair, values) in values.as_chunks_mut::<GROUP>().0.iter_mut().enumerate() {
        let nibble = block[106 + pair / 4] >> (4 * (pair / 2 % 2)) & 15;
        let scale = d * f32::from(1 + 2 * nibble);
        let high_bits = usize::from(block[66 + pair / 2]) >> (4 * (pair % 2));
        let mut magnitudes = [0; GROUP];
        for (i, magnitudes) in magnitudes.as_chunks_mut::<4>().0.iter_mut().enumerate() {
            let high = high_bits >> i & 1;
            *magnitudes = IQ3_S_VALUES[usize::from(block[2 + 4 * pair + i]) | high << 8];
        }
        signed_values(simd, scale, &magnitudes, u16_at(block, 74 + 2 * pair), values);
    }
}
