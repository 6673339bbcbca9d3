//! Q2_K with its scales frozen.

use tensor::DType;

use super::scalar::{BYTES, ELEMS, SUB_ELEMS};
use crate::{
    block::{array_at, array_at_mut, f16_at},
    frozen::{Frozen, Points},
    two_bits,
};

/// A block, for the table of such types.
pub struct Block;

impl Frozen<ELEMS, BYTES> for Block {
    const DTYPE: DType = DType::Q2_K;
    const GROUP: usize = SUB_ELEMS;
    const POINTS: Points = Points::Steps { zero: 0, lowest: 0, highest: 3 };

    #[inline(always)]
    fn scales(block: &[u8; BYTES], scales: &mut [f32], offsets: &mut [f32]) {
        let (scale, min) = (f16_at(block, 80), f16_at(block, 82));
        for (sub, (sub_scale, offset)) in scales.iter_mut().zip(offsets).enumerate() {
            *sub_scale = scale * f32::from(block[sub] & 0x0f);
            *offset = -(min * f32::from(block[sub] >> 4));
        }
    }

    #[inline(always)]
    fn levels(block: &[u8; BYTES]) -> [u8; ELEMS] {
        let mut levels = [0; ELEMS];
        for (sub, levels) in levels.as_chunks_mut::<SUB_ELEMS>().0.iter_mut().enumerate() {
            *levels = two_bits::unpack(array_at(block, 16), sub);
        }
        levels
    }

    #[inline(always)]
    fn put_levels(levels: &[u8; ELEMS], block: &mut [u8; BYTES]) {
        *array_at_mut(block, 16) = two_bits::pack(levels);
    }
}
