//! Q2_K with fixed scales.

use gguf_types::DType;

use super::scalar::{BYTES, ELEMS, SUB_ELEMS};
use crate::{
    block::{array_at, array_at_mut, f16_at},
    frozen::{Codes, Frozen, Points},
    two_bits,
};

pub struct Block;

impl Frozen<ELEMS, BYTES> for Block {
    const DTYPE: DType = DType::Q2_K;
    const GROUP: usize = SUB_ELEMS;
    const POINTS: Points = Points::Steps { zero: 0, lowest: 0, highest: 3 };
    // Scale and minimum of a sub-block share a byte, four bits each.
    const CODES: [Codes; 2] = [Codes::Integers { lowest: 0, highest: 15, zero: 0 }; 2];

    #[inline(always)]
    fn codes(block: &[u8; BYTES], group: usize) -> [u16; 2] {
        [u16::from(block[group] & 0x0f), u16::from(block[group] >> 4)]
    }

    #[inline(always)]
    fn scale(block: &[u8; BYTES], [scale, min]: [u16; 2]) -> [f32; 2] {
        // The decoder subtracts the minimum after the product: adding its negative is equal to the last bit.
        [f16_at(block, 80) * f32::from(scale), -(f16_at(block, 82) * f32::from(min))]
    }

    #[inline(always)]
    fn put_codes([scale, min]: [u16; 2], block: &mut [u8; BYTES], group: usize) {
        block[group] = scale as u8 | (min as u8) << 4;
    }

    #[inline(always)]
    fn levels(block: &[u8; BYTES]) -> [u8; ELEMS] {
        let mut levels = [0; ELEMS];
        for (sub, levels) in levels.as_chunks_mut::<SUB_ELEMS>().0.iter_mut().enumerate() {
            // Levels follow the 16 bytes of scales.
            *levels = two_bits::unpack(array_at(block, 16), sub);
        }
        levels
    }

    #[inline(always)]
    fn put_levels(levels: &[u8; ELEMS], block: &mut [u8; BYTES]) {
        *array_at_mut(block, 16) = two_bits::pack(levels);
    }
}
