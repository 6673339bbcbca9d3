//! IQ3_XXS to floats, an element a lane.

use fearless_simd::Simd;
use fearless_simd_macros::simd;

use super::BYTES;
use crate::{
    block::{f16_at, u32_at},
    grids::{IQ3_XXS_VALUES, even_signs},
    iq_fit::SUPER,
    lanes::decode::{GROUP, signed_values},
};

/// Decodes a block.
#[simd]
pub fn decode<S: Simd>(simd: S, block: &[u8; BYTES], values: &mut [f32; SUPER]) {
    let d = f16_at(block, 0);
    for (pair, values) in values.as_chunks_mut::<GROUP>().0.iter_mut().enumerate() {
        let word = u32_at(block, 66 + pair / 2 * 4);
        let side = 2 * (pair % 2);
        let scale = d * (0.5 + (word >> 28) as f32) * 0.5;
        let mut magnitudes = [0; GROUP];
        for (i, magnitudes) in magnitudes.as_chunks_mut::<4>().0.iter_mut().enumerate() {
            *magnitudes = IQ3_XXS_VALUES[usize::from(block[2 + 4 * pair + i])];
        }
        let signs = u16::from_le_bytes([0, 1].map(|i| even_signs((word >> (7 * (side + i))) as u8)));
        signed_values(simd, scale, &magnitudes, signs, values);
    }
}
