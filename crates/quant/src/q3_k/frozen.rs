//! Q3_K with its scales frozen.

use tensor::DType;

use super::scalar::{BYTES, ELEMS, SUB_ELEMS, put_levels, read_scales};
use crate::{
    block::array_at,
    frozen::{Frozen, NO_OFFSET, Points},
    two_bits,
};

/// A block, for the table of such types.
pub struct Block;

impl Frozen<ELEMS, BYTES> for Block {
    const DTYPE: DType = DType::Q3_K;
    const GROUP: usize = SUB_ELEMS;
    const POINTS: Points = Points::Steps { zero: 4, lowest: 0, highest: 7 };

    #[inline(always)]
    fn scales(block: &[u8; BYTES], scales: &mut [f32], offsets: &mut [f32]) {
        scales.copy_from_slice(&read_scales(block));
        offsets.fill(NO_OFFSET);
    }

    #[inline(always)]
    fn levels(block: &[u8; BYTES]) -> [u8; ELEMS] {
        let third: &[u8; 32] = array_at(block, 0);
        let mut levels = [0; ELEMS];
        for (sub, levels) in levels.as_chunks_mut::<SUB_ELEMS>().0.iter_mut().enumerate() {
            let low = two_bits::unpack(array_at(block, 32), sub);
            let third: &[u8; SUB_ELEMS] = array_at(third, sub % 2 * 16);
            *levels = std::array::from_fn(|i| low[i] | (third[i] >> (sub / 2) & 1) << 2);
        }
        levels
    }

    #[inline(always)]
    fn put_levels(levels: &[u8; ELEMS], block: &mut [u8; BYTES]) {
        put_levels(levels, block);
    }
}
