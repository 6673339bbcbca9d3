//! IQ2_XXS with fixed scales.

use gguf_types::DType;

use super::BYTES;
use crate::{
    block::{f16_at, put_u32, u32_at},
    codebook::{Choice, Codebook, Eights},
    grids::{IQ2_XXS_VALUES, even_signs},
};

pub struct Block;

impl Eights<BYTES> for Block {
    const DTYPE: DType = DType::IQ2_XXS;
    const GROUP: usize = 32;
    const CODEBOOK: Codebook = Codebook::Eights(&IQ2_XXS_VALUES);
    const EVEN: bool = true;

    #[inline(always)]
    fn scale(block: &[u8; BYTES], group: usize) -> f32 {
        // The four remaining bits of the word with the signs of four groups of eight: 4 * 7 + 4 = 32.
        f16_at(block, 0) * (0.5 + (u32_at(block, 6 + 8 * group) >> 28) as f32) * 0.25
    }

    #[inline(always)]
    fn choice(block: &[u8; BYTES], eight: usize) -> Choice {
        // Two words for 32 columns: four points of a byte, then four times seven signs with the sub-scale above them.
        let (words, at) = (2 + eight / 4 * 8, eight % 4);
        // The eighth sign follows from seven, since their number is even.
        let signs = even_signs((u32_at(block, words + 4) >> (7 * at)) as u8);
        Choice { points: [u16::from(block[words + at]), 0], signs }
    }

    #[inline(always)]
    fn put_choice(choice: Choice, block: &mut [u8; BYTES], eight: usize) {
        let (words, at) = (2 + eight / 4 * 8, eight % 4);
        block[words + at] = choice.points[0] as u8;
        let word = u32_at(block, words + 4) & !(127 << (7 * at));
        put_u32(block, words + 4, word | u32::from(choice.signs & 127) << (7 * at));
    }
}
