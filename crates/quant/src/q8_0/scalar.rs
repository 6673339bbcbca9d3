//! The meaning of Q8_0.

use crate::{
    block::{array_at, array_at_mut, decode_signed, f16_at, put_f16},
    fit::steps_of_largest,
};

pub const ELEMS: usize = 32;
pub const BYTES: usize = 34;

/// Encodes a block: the largest magnitude becomes 127; halves are rounded away from zero.
#[inline(always)]
pub fn encode(values: &[f32; ELEMS], block: &mut [u8; BYTES]) {
    let (scale, steps) = steps_of_largest(values, 127.0);
    put_f16(block, 0, scale);
    *array_at_mut(block, 2) = steps;
}

#[inline(always)]
pub fn decode(block: &[u8; BYTES], values: &mut [f32; ELEMS]) {
    let scale = f16_at(block, 0);
    decode_signed(array_at(block, 2), scale, values);
}
