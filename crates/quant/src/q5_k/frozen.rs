//! Q5_K with its scales frozen.

use tensor::DType;

use super::scalar::{BYTES, ELEMS, put_levels};
use crate::{
    block::{array_at, array_at_mut, f16_at},
    frozen::{Codes, Frozen, Points},
    k_scales,
};

/// A block, for the table of such types.
pub struct Block;

impl Frozen<ELEMS, BYTES> for Block {
    const DTYPE: DType = DType::Q5_K;
    const GROUP: usize = 32;
    const POINTS: Points = Points::Steps { zero: 0, lowest: 0, highest: 31 };
    // Six bits each, as in Q4_K.
    const CODES: [Codes; 2] = [Codes::Integers { lowest: 0, highest: 63, zero: 0 }; 2];

    #[inline(always)]
    fn codes(block: &[u8; BYTES], group: usize) -> [u16; 2] {
        let (scales, mins) = k_scales::unpack(array_at(block, 4));
        [u16::from(scales[group]), u16::from(mins[group])]
    }

    #[inline(always)]
    fn scale(block: &[u8; BYTES], [scale, min]: [u16; 2]) -> [f32; 2] {
        // As in Q4_K: the minimum is taken off, after the product.
        [f16_at(block, 0) * f32::from(scale), -(f16_at(block, 2) * f32::from(min))]
    }

    #[inline(always)]
    fn put_codes([scale, min]: [u16; 2], block: &mut [u8; BYTES], group: usize) {
        // Scales and minima of six bits share twelve bytes: all are unpacked to change one.
        let (mut scales, mut mins) = k_scales::unpack(array_at(block, 4));
        (scales[group], mins[group]) = (scale as u8, min as u8);
        *array_at_mut(block, 4) = k_scales::pack(&scales, &mins);
    }

    #[inline(always)]
    fn levels(block: &[u8; BYTES]) -> [u8; ELEMS] {
        // Nibbles as in Q4_K; bit `group` of byte `i` of the 32 before them is the fifth of column `i` of that group.
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
