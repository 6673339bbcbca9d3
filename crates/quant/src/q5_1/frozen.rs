//! Q5_1 with its scales frozen.

use tensor::DType;

use super::scalar::{BYTES, ELEMS};
use crate::{
    block::{array_at, array_at_mut, put_u32, u32_at},
    frozen::{Codes, Frozen, Points},
    nibbles,
};

/// A block, for the table of such types.
pub struct Block;

impl Frozen<ELEMS, BYTES> for Block {
    const DTYPE: DType = DType::Q5_1;
    const GROUP: usize = ELEMS;
    const POINTS: Points = Points::Steps { zero: 0, lowest: 0, highest: 31 };
    // Scale and minimum are separate halves; the minimum is added as it is.
    const CODES: [Codes; 2] = [Codes::Halves, Codes::Halves];

    #[inline(always)]
    fn levels(block: &[u8; BYTES]) -> [u8; ELEMS] {
        // As in Q5_0, two bytes later: the minimum lies before the fifth bits.
        nibbles::unpack_five(array_at(block, 8), u32_at(block, 4))
    }

    #[inline(always)]
    fn put_levels(levels: &[u8; ELEMS], block: &mut [u8; BYTES]) {
        put_u32(block, 4, nibbles::fifth_bits(levels));
        *array_at_mut(block, 8) = nibbles::pack(levels);
    }
}
