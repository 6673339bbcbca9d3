//! Q2_K with its scales frozen.

use tensor::DType;

use super::scalar::{BYTES, ELEMS, SUB_ELEMS};
use crate::{
    block::{array_at, array_at_mut, f16_at},
    frozen::{Codes, Frozen, Points},
    two_bits,
};

/// A block, for the table of such types.
pub struct Block;

impl Frozen<ELEMS, BYTES> for Block {
    const DTYPE: DType = DType::Q2_K;
    const GROUP: usize = SUB_ELEMS;
    const POINTS: Points = Points::Steps { zero: 0, lowest: 0, highest: 3 };
    // Four bits each: what `d` and `dmin` are multiplied by.
    const CODES: [Codes; 2] = [Codes::Integers { lowest: 0, highest: 15, zero: 0 }; 2];

    #[inline(always)]
    fn codes(block: &[u8; BYTES], group: usize) -> [u16; 2] {
        // Bytes 0 to 15, one for each group: the scale low, the minimum high.
        [u16::from(block[group] & 0x0f), u16::from(block[group] >> 4)]
    }

    #[inline(always)]
    fn scale(block: &[u8; BYTES], [scale, min]: [u16; 2]) -> [f32; 2] {
        // `d` and `dmin` stand behind the levels. A minimum is subtracted, so that the offset is its negative.
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
            // Bytes 16 to 79: four levels a byte, those of groups that are 32 columns apart.
            *levels = two_bits::unpack(array_at(block, 16), sub);
        }
        levels
    }

    #[inline(always)]
    fn put_levels(levels: &[u8; ELEMS], block: &mut [u8; BYTES]) {
        *array_at_mut(block, 16) = two_bits::pack(levels);
    }
}
