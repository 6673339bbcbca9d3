//! IQ2_XS with fixed scales.

use gguf_types::DType;

use super::BYTES;
use crate::{
    block::{f16_at, put_u16, u16_at},
    codebook::{Choice, Codebook, Eights},
    grids::{IQ2_XS_VALUES, even_signs},
};

pub struct Block;

impl Eights<BYTES> for Block {
    const DTYPE: DType = DType::IQ2_XS;
    const GROUP: usize = 16;
    const CODEBOOK: Codebook = Codebook::Eights(&IQ2_XS_VALUES);
    const EVEN: bool = true;

    #[inline(always)]
    fn scale(block: &[u8; BYTES], group: usize) -> f32 {
        // A byte of scales serves 32 columns, each nibble 16; the half makes scales odd multiples of an
        // eighth of the block's.
        f16_at(block, 0) * (0.5 + f32::from(block[66 + group / 2] >> (4 * (group % 2)) & 15)) * 0.25
    }

    #[inline(always)]
    fn choice(block: &[u8; BYTES], eight: usize) -> Choice {
        // Nine bits of the point, seven of the signs; the eighth sign follows from these.
        let word = u16_at(block, 2 + 2 * eight);
        Choice { points: [word & 511, 0], signs: even_signs((word >> 9) as u8) }
    }

    #[inline(always)]
    fn put_choice(choice: Choice, block: &mut [u8; BYTES], eight: usize) {
        put_u16(block, 2 + 2 * eight, choice.points[0] | u16::from(choice.signs & 127) << 9);
    }
}
