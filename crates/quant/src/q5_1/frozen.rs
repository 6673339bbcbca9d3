//! Q5_1 with its scales frozen.

use tensor::DType;

use super::scalar::{BYTES, ELEMS};
use crate::{
    block::{array_at, array_at_mut, f16_at, put_u32, u32_at},
    frozen::{Frozen, Points},
    nibbles,
};

/// A block, for the table of such types.
pub struct Block;

impl Frozen<ELEMS, BYTES> for Block {
    const DTYPE: DType = DType::Q5_1;
    const GROUP: usize = ELEMS;
    const POINTS: Points = Points::Steps { zero: 0, lowest: 0, highest: 31 };

    #[inline(always)]
    fn scales(block: &[u8; BYTES], scales: &mut [f32], offsets: &mut [f32]) {
        scales[0] = f16_at(block, 0);
        offsets[0] = f16_at(block, 2);
    }

    #[inline(always)]
    fn levels(block: &[u8; BYTES]) -> [u8; ELEMS] {
        nibbles::unpack_five(array_at(block, 8), u32_at(block, 4))
    }

    #[inline(always)]
    fn put_levels(levels: &[u8; ELEMS], block: &mut [u8; BYTES]) {
        put_u32(block, 4, nibbles::fifth_bits(levels));
        *array_at_mut(block, 8) = nibbles::pack(levels);
    }
}
