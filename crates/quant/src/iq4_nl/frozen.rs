//! IQ4_NL with fixed scales.

use gguf_types::DType;

use super::BYTES;
use crate::{
    block::{array_at, array_at_mut},
    frozen::{Frozen, Points},
    grids::IQ4_VALUES,
    iq_fit::nonlinear::SUB,
    nibbles,
};

pub struct Block;

impl Frozen<SUB, BYTES> for Block {
    const DTYPE: DType = DType::IQ4_NL;
    const GROUP: usize = SUB;
    // The nearest level is not found by rounding: the table is denser near zero.
    const POINTS: Points = Points::Table(&IQ4_VALUES);

    #[inline(always)]
    fn levels(block: &[u8; BYTES]) -> [u8; SUB] {
        nibbles::unpack(array_at(block, 2))
    }

    #[inline(always)]
    fn put_levels(levels: &[u8; SUB], block: &mut [u8; BYTES]) {
        *array_at_mut(block, 2) = nibbles::pack(levels);
    }
}
