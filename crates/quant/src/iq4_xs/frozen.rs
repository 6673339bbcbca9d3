//! IQ4_XS with its scales frozen.

use tensor::DType;

use super::BYTES;
use crate::{
    block::{array_at, array_at_mut, f16_at, u16_at},
    frozen::{Frozen, NO_OFFSET, Points},
    grids::IQ4_VALUES,
    iq_fit::{SUPER, nonlinear::SUB},
    nibbles,
};

/// A block, for the table of such types.
pub struct Block;

impl Frozen<SUPER, BYTES> for Block {
    const DTYPE: DType = DType::IQ4_XS;
    const GROUP: usize = SUB;
    const POINTS: Points = Points::Table(&IQ4_VALUES);

    #[inline(always)]
    fn scales(block: &[u8; BYTES], scales: &mut [f32], offsets: &mut [f32]) {
        let d = f16_at(block, 0);
        let high_bits = u16_at(block, 2);
        for (at, scale) in scales.iter_mut().enumerate() {
            let low = i32::from(block[4 + at / 2] >> (4 * (at % 2)) & 15);
            let high = i32::from(high_bits >> (2 * at) & 3);
            *scale = d * (low + 16 * high - 32) as f32;
        }
        offsets.fill(NO_OFFSET);
    }

    #[inline(always)]
    fn levels(block: &[u8; BYTES]) -> [u8; SUPER] {
        let mut levels = [0; SUPER];
        for (at, levels) in levels.as_chunks_mut().0.iter_mut().enumerate() {
            *levels = nibbles::unpack(array_at(block, 8 + 16 * at));
        }
        levels
    }

    #[inline(always)]
    fn put_levels(levels: &[u8; SUPER], block: &mut [u8; BYTES]) {
        for (at, levels) in levels.as_chunks().0.iter().enumerate() {
            *array_at_mut(block, 8 + 16 * at) = nibbles::pack(levels);
        }
    }
}
