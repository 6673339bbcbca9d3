//! Q4_K with its scales frozen.

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
    const DTYPE: DType = DType::Q4_K;
    const GROUP: usize = 32;
    const POINTS: Points = Points::Steps { zero: 0, lowest: 0, highest: 15 };
    // Six bits each, all of a block in 12 bytes.
    const CODES: [Codes; 2] = [Codes::Integers { lowest: 0, highest: 63, zero: 0 }; 2];

    #[inline(always)]
    fn codes(block: &[u8; BYTES], group: usize) -> [u16; 2] {
        let (scales, mins) = k_scales::unpack(array_at(block, 4));
        [u16::from(scales[group]), u16::from(mins[group])]
    }

    #[inline(always)]
    fn scale(block: &[u8; BYTES], [scale, min]: [u16; 2]) -> [f32; 2] {
        // The decoder takes the minimum off, after the product: its negative is the same offset to the last bit.
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
        let packed: &[u8; 128] = array_at(block, 16);
        // Two sub-blocks share 32 bytes: the first has the low halves, the second the high ones.
        std::array::from_fn(|i| packed[i / 64 * 32 + i % 32] >> (i / 32 % 2 * 4) & 0x0f)
    }

    #[inline(always)]
    fn put_levels(levels: &[u8; ELEMS], block: &mut [u8; BYTES]) {
        put_levels(levels, array_at_mut(block, 16));
    }
}
