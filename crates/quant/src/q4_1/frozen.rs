//! Q4_1 with its scales frozen.

use tensor::DType;

use super::scalar::{BYTES, ELEMS};
use crate::{
    block::{array_at, array_at_mut},
    frozen::{Codes, Frozen, Points},
    nibbles,
};

/// A block, for the table of such types.
pub struct Block;

impl Frozen<ELEMS, BYTES> for Block {
    const DTYPE: DType = DType::Q4_1;
    const GROUP: usize = ELEMS;
    // The minimum is a separate number, so levels count up from it.
    const POINTS: Points = Points::Steps { zero: 0, lowest: 0, highest: 15 };
    const CODES: [Codes; 2] = [Codes::Halves, Codes::Halves];

    #[inline(always)]
    fn levels(block: &[u8; BYTES]) -> [u8; ELEMS] {
        nibbles::unpack(array_at(block, 4))
    }

    #[inline(always)]
    fn put_levels(levels: &[u8; ELEMS], block: &mut [u8; BYTES]) {
        *array_at_mut(block, 4) = nibbles::pack(levels);
    }
}
