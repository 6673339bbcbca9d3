//! IQ2_S to floats, an element a lane.

use fearless_simd::Simd;
use fearless_simd_macros::simd;

use super::BYTES;
use crate::{
    block::{f16_at, u16_at},
    grids::IQ2_S_VALUES,
    iq_fit::SUPER,
    lanes::decode::{GROUP, join, signed_values},
};

/// Decodes a block.
#[simd]
pub fn decode<S: Simd>(simd: S, block: &[u8; BYTES], values: &mut [f32; SUPER]) {
    let d = f16_at(block, 0);
    for (pair, values) in values.as_chunks_mut::<GROUP>().0.iter_mut().enumerate() {
        let nibble = block[74 + pair / 2] >> (4 * (pair % 2)) & 15;
        let high_bits = usize::from(block[66 + pair / 2] >> (4 * (pair % 2)));
        let scale = d * (0.5 + f32::from(nibble)) * 0.25;
        let magnitudes = join([0, 1].map(|i| {
            let high = high_bits >> (2 * i) & 3;
            IQ2_S_VALUES[usize::from(block[2 + 2 * pair + i]) | high << 8]
        }));
        let signs = u16_at(block, 34 + 2 * pair);
        signed_values(simd, scale, &magnitudes, signs, values);
    }
}
