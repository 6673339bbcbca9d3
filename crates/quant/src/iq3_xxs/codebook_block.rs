//! IQ3_XXS with fixed scales.

use gguf_types::DType;

use super::BYTES;
use crate::{
    block::{f16_at, put_u32, u32_at},
    codebook::{Choice, Codebook, Eights},
    grids::{IQ3_XXS_VALUES, even_signs},
};

pub struct Block;

impl Eights<BYTES> for Block {
    const DTYPE: DType = DType::IQ3_XXS;
    const GROUP: usize = 32;
    const CODEBOOK: Codebook = Codebook::Fours(&IQ3_XXS_VALUES);
    const EVEN: bool = true;

    #[inline(always)]
    fn scale(block: &[u8; BYTES], group: usize) -> f32 {
        // Like in IQ2_XXS: the four remaining bits of the word with the signs of four groups of eight.
        f16_at(block, 0) * (0.5 + (u32_at(block, 66 + 4 * group) >> 28) as f32) * 0.5
    }

    #[inline(always)]
    fn choice(block: &[u8; BYTES], eight: usize) -> Choice {
        let word = u32_at(block, 66 + eight / 4 * 4);
        // 256 points of four columns: a byte each.
        let points = [block[2 + 2 * eight], block[3 + 2 * eight]].map(u16::from);
        Choice { points, signs: even_signs((word >> (7 * (eight % 4))) as u8) }
    }

    #[inline(always)]
    fn put_choice(choice: Choice, block: &mut [u8; BYTES], eight: usize) {
        let (at, shift) = (66 + eight / 4 * 4, 7 * (eight % 4));
        [block[2 + 2 * eight], block[3 + 2 * eight]] = choice.points.map(|point| point as u8);
        let word = u32_at(block, at) & !(127 << shift);
        put_u32(block, at, word | u32::from(choice.signs & 127) << shift);
    }
}
