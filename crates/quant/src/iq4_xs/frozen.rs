//! IQ4_XS with fixed scales.

use gguf_types::DType;

use super::BYTES;
use crate::{
    block::{array_at, array_at_mut, f16_at, put_u16, u16_at},
    frozen::{Codes, Frozen, NO_OFFSET, Points},
    grids::IQ4_VALUES,
    iq_fit::{SUPER, nonlinear::SUB},
    nibbles,
};

pub struct Block;

impl Frozen<SUPER, BYTES> for Block {
    const DTYPE: DType = DType::IQ4_XS;
    const GROUP: usize = SUB;
    const POINTS: Points = Points::Table(&IQ4_VALUES);
    // Six bits, offset by 32: four in a byte for two sub-blocks, two in a word for all eight.
    const CODES: [Codes; 2] = [Codes::Integers { lowest: 0, highest: 63, zero: 32 }, Codes::None];

    #[inline(always)]
    fn codes(block: &[u8; BYTES], group: usize) -> [u16; 2] {
        let low = block[4 + group / 2] >> (4 * (group % 2)) & 15;
        [u16::from(low) | (u16_at(block, 2) >> (2 * group) & 3) << 4, 0]
    }

    #[inline(always)]
    fn scale(block: &[u8; BYTES], [scale, _]: [u16; 2]) -> [f32; 2] {
        [f16_at(block, 0) * (i32::from(scale) - 32) as f32, NO_OFFSET]
    }

    #[inline(always)]
    fn put_codes([scale, _]: [u16; 2], block: &mut [u8; BYTES], group: usize) {
        let (nibble, pair) = (4 * (group % 2), 2 * group);
        block[4 + group / 2] = block[4 + group / 2] & !(15 << nibble) | (scale as u8 & 15) << nibble;
        let high = u16_at(block, 2) & !(3 << pair) | (scale >> 4) << pair;
        put_u16(block, 2, high);
    }

    #[inline(always)]
    fn levels(block: &[u8; BYTES]) -> [u8; SUPER] {
        let mut levels = [0; SUPER];
        for (at, levels) in levels.as_chunks_mut().0.iter_mut().enumerate() {
            // 16 bytes per sub-block, like in IQ4_NL, after 8 bytes of scales.
            *levels = nibbles::unpack(array_at(block, 8 + 16 * at));
        }
        levels
    }

    #[inline(always)]
    fn put_levels(levels: &[u8; SUPER], block: &mut [u8; BYTES]) {
        for (at, levels) in levels.as_chunks().0.iter().enumerate() {
            *array_at_mut(block, 8 + 16 * at) = nibbles::pack(levels);
        }
    }
}
