//! Q8_0 with its scales frozen.

use tensor::DType;

use super::scalar::{BYTES, ELEMS};
use crate::{
    block::{array_at, array_at_mut, put_u16, u16_at},
    frozen::{Codes, Frozen, NO_OFFSET, Points},
    round::f16_to_f32,
};

/// A block, for the table of such types.
pub struct Block;

impl Frozen<ELEMS, BYTES> for Block {
    const DTYPE: DType = DType::Q8_0;
    const GROUP: usize = ELEMS;
    const POINTS: Points = Points::Steps { zero: 128, lowest: 1, highest: 255 };
    const CODES: [Codes; 2] = [Codes::Halves, Codes::None];

    #[inline(always)]
    fn codes(block: &[u8; BYTES], _group: usize) -> [u16; 2] {
        [u16_at(block, 0), 0]
    }

    #[inline(always)]
    fn scale(_block: &[u8; BYTES], [scale, _]: [u16; 2]) -> [f32; 2] {
        [f16_to_f32(scale), NO_OFFSET]
    }

    #[inline(always)]
    fn put_codes([scale, _]: [u16; 2], block: &mut [u8; BYTES], _group: usize) {
        put_u16(block, 0, scale);
    }

    // Levels are the signed bytes, lifted by 128. The reference never gives -128, and some of its kernels take the magnitude of a byte.
    #[inline(always)]
    fn levels(block: &[u8; BYTES]) -> [u8; ELEMS] {
        array_at::<ELEMS, _>(block, 2).map(|byte| byte ^ 0x80)
    }

    #[inline(always)]
    fn put_levels(levels: &[u8; ELEMS], block: &mut [u8; BYTES]) {
        *array_at_mut(block, 2) = levels.map(|level| level ^ 0x80);
    }
}
