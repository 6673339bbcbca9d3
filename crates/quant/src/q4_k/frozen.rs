//! Q4_K with its scales frozen.

use tensor::DType;

use super::scalar::{BYTES, ELEMS, put_levels};
use crate::{
    block::{array_at, array_at_mut},
    frozen::{Frozen, Points},
    k_scales,
};

/// A block, for the table of such types.
pub struct Block;

impl Frozen<ELEMS, BYTES> for Block {
    const DTYPE: DType = DType::Q4_K;
    const GROUP: usize = 32;
    const POINTS: Points = Points::Steps { zero: 0, lowest: 0, highest: 15 };

    #[inline(always)]
    fn scales(block: &[u8; BYTES], scales: &mut [f32], offsets: &mut [f32]) {
        let (sub_scales, sub_mins) = k_scales::read(array_at(block, 0));
        scales.copy_from_slice(&sub_scales);
        offsets.copy_from_slice(&sub_mins.map(|min| -min));
    }

    #[inline(always)]
    fn levels(block: &[u8; BYTES]) -> [u8; ELEMS] {
        let packed: &[u8; 128] = array_at(block, 16);
        std::array::from_fn(|i| packed[i / 64 * 32 + i % 32] >> (i / 32 % 2 * 4) & 0x0f)
    }

    #[inline(always)]
    fn put_levels(levels: &[u8; ELEMS], block: &mut [u8; BYTES]) {
        put_levels(levels, array_at_mut(block, 16));
    }
}
