//! Q8_0 with fixed scales.

use gguf_types::DType;

use super::scalar::{BYTES, ELEMS};
use crate::{
    block::{array_at, array_at_mut},
    frozen::{Frozen, Points},
};

pub struct Block;

impl Frozen<ELEMS, BYTES> for Block {
    const DTYPE: DType = DType::Q8_0;
    const GROUP: usize = ELEMS;
    const POINTS: Points = Points::Steps { zero: 128, lowest: 1, highest: 255 };

    // Levels are the signed bytes, offset by 128. The reference never produces -128, and some of its kernels
    // use the magnitude of a byte.
    #[inline(always)]
    fn levels(block: &[u8; BYTES]) -> [u8; ELEMS] {
        array_at::<ELEMS, _>(block, 2).map(|byte| byte ^ 0x80)
    }

    #[inline(always)]
    fn put_levels(levels: &[u8; ELEMS], block: &mut [u8; BYTES]) {
        *array_at_mut(block, 2) = levels.map(|level| level ^ 0x80);
    }
}
