//! Q6_K with its scales frozen.

use tensor::DType;

use super::scalar::{BYTES, ELEMS, SUB_ELEMS, put_levels};
use crate::{
    block::f16_at,
    frozen::{Frozen, NO_OFFSET, Points},
};

/// A block, for the table of such types.
pub struct Block;

impl Frozen<ELEMS, BYTES> for Block {
    const DTYPE: DType = DType::Q6_K;
    const GROUP: usize = SUB_ELEMS;
    const POINTS: Points = Points::Steps { zero: 32, lowest: 0, highest: 63 };

    #[inline(always)]
    fn scales(block: &[u8; BYTES], scales: &mut [f32], offsets: &mut [f32]) {
        let scale = f16_at(block, 208);
        for (sub, sub_scale) in scales.iter_mut().enumerate() {
            *sub_scale = scale * f32::from(block[192 + sub] as i8);
        }
        offsets.fill(NO_OFFSET);
    }

    #[inline(always)]
    fn levels(block: &[u8; BYTES]) -> [u8; ELEMS] {
        std::array::from_fn(|i| {
            let (half, quarter) = (i / 128, i / 32 % 4);
            let low = block[64 * half + 32 * (quarter % 2) + i % 32] >> (quarter / 2 * 4) & 0x0f;
            low | (block[128 + 32 * half + i % 32] >> (2 * quarter) & 3) << 4
        })
    }

    #[inline(always)]
    fn put_levels(levels: &[u8; ELEMS], block: &mut [u8; BYTES]) {
        put_levels(levels, block);
    }
}
