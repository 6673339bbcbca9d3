//! Q5_K with its scales frozen.

use tensor::DType;

use super::scalar::{BYTES, ELEMS, put_levels};
use crate::{
    block::array_at,
    frozen::{Frozen, Points},
    k_scales,
};

/// A block, for the table of such types.
pub struct Block;

impl Frozen<ELEMS, BYTES> for Block {
    const DTYPE: DType = DType::Q5_K;
    const GROUP: usize = 32;
    const POINTS: Points = Points::Steps { zero: 0, lowest: 0, highest: 31 };

    #[inline(always)]
    fn scales(block: &[u8; BYTES], scales: &mut [f32], offsets: &mut [f32]) {
        let (sub_scales, sub_mins) = k_scales::read(array_at(block, 0));
        scales.copy_from_slice(&sub_scales);
        offsets.copy_from_slice(&sub_mins.map(|min| -min));
    }

    #[inline(always)]
    fn levels(block: &[u8; BYTES]) -> [u8; ELEMS] {
        let (fifth, low): (&[u8; 32], &[u8; 128]) = (array_at(block, 16), array_at(block, 48));
        std::array::from_fn(|i| {
            let low = low[i / 64 * 32 + i % 32] >> (i / 32 % 2 * 4) & 0x0f;
            low | (fifth[i % 32] >> (i / 32) & 1) << 4
        })
    }

    #[inline(always)]
    fn put_levels(levels: &[u8; ELEMS], block: &mut [u8; BYTES]) {
        put_levels(levels, block);
    }
}
