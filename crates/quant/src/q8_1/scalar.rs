//! The meaning of Q8_1.

use crate::{
    block::{array_at, array_at_mut, decode_signed, f16_at, put_f16},
    fit::steps_of_largest,
};

pub const ELEMS: usize = 32;
pub const BYTES: usize = 36;

/// Encodes a block like Q8_0; the sum of the levels is multiplied by the scale before the latter is rounded.
#[inline(always)]
pub fn encode(values: &[f32; ELEMS], block: &mut [u8; BYTES]) {
    let (scale, steps) = steps_of_largest(values, 127.0);
    let levels = steps.map(|step| step as i8);
    let sum: i32 = levels.iter().map(|level| i32::from(*level)).sum();
    put_f16(block, 0, scale);
    put_f16(block, 2, sum as f32 * scale);
    *array_at_mut(block, 4) = steps;
}

/// Decodes a block; the sum is not needed.
#[inline(always)]
pub fn decode(block: &[u8; BYTES], values: &mut [f32; ELEMS]) {
    let scale = f16_at(block, 0);
    decode_signed(array_at(block, 4), scale, values);
}
