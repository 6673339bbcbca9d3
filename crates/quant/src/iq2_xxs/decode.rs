//! IQ2_XXS to floats, an element a lane.

use fearless_simd::Simd;
use fearless_simd_macros::simd;

use super::BYTES;
use crate::{
    block::{f16_at, u32_at},
    grids::{IQ2_XXS_VALUES, even_signs},
    iq_fit::SUPER,
    lanes::decode::{GROUP, join, signed_values},
};

/// Decodes a block.
#[simd]
pub fn decode<S: Simd>(simd: S, block: &[u8; BYTES], values: &mut [f32; SUPER]) {
    let d = f16_at(block, 0);
    for (pair, values) in values.as_chunks_mut::<GROUP>().0.iter_mut().enumerate() {
        // Two points, of which 8 bytes hold four.
        let (words, side) = (2 + pair / 2 * 8, 2 * (pair % 2));
        let word = u32_at(block, words + 4);
        let scale = d * (0.5 + (word >> 28) as f32) * 0.25;
        let magnitudes = join([0, 1].map(|i| IQ2_XXS_VALUES[usize::from(block[words + side + i])]));
        let signs = u16::from_le_bytes([0, 1].map(|i| even_signs((word >> (7 * (side + i))) as u8)));
        signed_values(simd, scale, &magnitudes, signs, values);
    }
}
