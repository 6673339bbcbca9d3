//! Q4_0 with its scales frozen.

use tensor::DType;

use super::scalar::{BYTES, ELEMS};
use crate::{
    block::{array_at, array_at_mut},
    frozen::{Frozen, Points},
    nibbles,
};

/// A block, for the table of such types.
pub struct Block;

impl Frozen<ELEMS, BYTES> for Block {
    const DTYPE: DType = DType::Q4_0;
    const GROUP: usize = ELEMS;
    // Level 0 stands for -8 and has no counterpart at the other end, which the encoder uses for the value of the largest magnitude.
    const POINTS: Points = Points::Steps { zero: 8, lowest: 0, highest: 15 };

    #[inline(always)]
    fn levels(block: &[u8; BYTES]) -> [u8; ELEMS] {
        // After the scale; element i has the low half of a byte, i + 16 the high half.
        nibbles::unpack(array_at(block, 2))
    }

    #[inline(always)]
    fn put_levels(levels: &[u8; ELEMS], block: &mut [u8; BYTES]) {
        *array_at_mut(block, 2) = nibbles::pack(levels);
    }
}
