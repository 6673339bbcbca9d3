//! IQ2_S with fixed scales.

use gguf_types::DType;

use super::BYTES;
use crate::{
    block::f16_at,
    codebook::{Choice, Codebook, Eights},
    grids::IQ2_S_VALUES,
};

pub struct Block;

impl Eights<BYTES> for Block {
    const DTYPE: DType = DType::IQ2_S;
    const GROUP: usize = 16;
    const CODEBOOK: Codebook = Codebook::Eights(&IQ2_S_VALUES);
    const EVEN: bool = false;

    #[inline(always)]
    fn scale(block: &[u8; BYTES], group: usize) -> f32 {
        f16_at(block, 0) * (0.5 + f32::from(block[74 + group / 2] >> (4 * (group % 2)) & 15)) * 0.25
    }

    #[inline(always)]
    fn choice(block: &[u8; BYTES], eight: usize) -> Choice {
        // 1024 points take ten bits; the upper two of four groups share a byte. All eight signs are stored,
        // so any number may be negative.
        let high = u16::from(block[66 + eight / 4] >> (2 * (eight % 4)) & 3);
        Choice { points: [u16::from(block[2 + eight]) | high << 8, 0], signs: block[34 + eight] }
    }

    #[inline(always)]
    fn put_choice(choice: Choice, block: &mut [u8; BYTES], eight: usize) {
        let shift = 2 * (eight % 4);
        block[2 + eight] = choice.points[0] as u8;
        block[34 + eight] = choice.signs;
        let high = (choice.points[0] >> 8) as u8;
        block[66 + eight / 4] = block[66 + eight / 4] & !(3 << shift) | high << shift;
    }
}
