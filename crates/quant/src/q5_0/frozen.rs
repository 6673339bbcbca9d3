//! Q5_0 with its scales frozen.

use tensor::DType;

use super::scalar::{BYTES, ELEMS};
use crate::{
    block::{array_at, array_at_mut, put_u32, u32_at},
    frozen::{Frozen, Points},
    nibbles,
};

/// A block, for the table of such types.
pub struct Block;

impl Frozen<ELEMS, BYTES> for Block {
    const DTYPE: DType = DType::Q5_0;
    const GROUP: usize = ELEMS;
    // Levels -16 to 15, lifted by 16.
    const POINTS: Points = Points::Steps { zero: 16, lowest: 0, highest: 31 };

    #[inline(always)]
    fn levels(block: &[u8; BYTES]) -> [u8; ELEMS] {
        // The fifth bits of all levels are one word between the scale and the low halves.
        nibbles::unpack_five(array_at(block, 6), u32_at(block, 2))
    }

    #[inline(always)]
    fn put_levels(levels: &[u8; ELEMS], block: &mut [u8; BYTES]) {
        put_u32(block, 2, nibbles::fifth_bits(levels));
        *array_at_mut(block, 6) = nibbles::pack(levels);
    }
}
