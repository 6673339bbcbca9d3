//! IQ2_XS to floats, an element a lane.

use fearless_simd::Simd;
use fearless_simd_macros::simd;

use super::BYTES;
use crate::{
    block::{f16_at, u16_at},
    grids::{IQ2_XS_VALUES, even_signs},
    iq_fit::SUPER,
    lanes::decode::{GROUP, join, signed_values},
};

/// Decodes a block.
#[simd]
pub fn decode<S: Simd>(simd: S, block: &[u8; BYTES], values: &mut [f32; SUPER]) {
    let d = f16_at(block, 0);
    for (pair, values) in values.as_chunks_mut::<GROUP>().0.iter_mut().enumerate() {
        let nibble = block[66 + pair / 2] >> (4 * (pair % 2)) & 15;
        let words = [0, 1].map(|i| u16_at(block, 2 + 4 * pair + 2 * i));
        let scale = d * (0.5 + f32::from(nibble)) * 0.25;
        let magnitudes = join(words.map(|word| IQ2_XS_VALUES[usize::from(word & 511)]));
        let signs = u16::from_le_bytes(words.map(|word| even_signs((word >> 9) as u8)));
        signed_values(simd, scale, &magnitudes, signs, values);
    }
}
