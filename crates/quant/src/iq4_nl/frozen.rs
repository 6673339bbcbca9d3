//! IQ4_NL with its scales frozen.

use tensor::DType;

use super::BYTES;
use crate::{
    block::{array_at, array_at_mut, put_u16, u16_at},
    frozen::{Codes, Frozen, NO_OFFSET, Points},
    grids::IQ4_VALUES,
    iq_fit::nonlinear::SUB,
    nibbles,
    round::f16_to_f32,
};

/// A block, for the table of such types.
pub struct Block;

impl Frozen<SUB, BYTES> for Block {
    const DTYPE: DType = DType::IQ4_NL;
    const GROUP: usize = SUB;
    // The nearest level is not found by rounding: the table is denser near zero.
    const POINTS: Points = Points::Table(&IQ4_VALUES);
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

    #[inline(always)]
    fn levels(block: &[u8; BYTES]) -> [u8; SUB] {
        nibbles::unpack(array_at(block, 2))
    }

    #[inline(always)]
    fn put_levels(levels: &[u8; SUB], block: &mut [u8; BYTES]) {
        *array_at_mut(block, 2) = nibbles::pack(levels);
    }
}
