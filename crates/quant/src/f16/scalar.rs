//! The meaning of F16.

use crate::round::{f16_to_f32, f32_to_f16};

pub const ELEMS: usize = 1;
pub const BYTES: usize = 2;

#[inline(always)]
pub fn encode(values: &[f32; ELEMS], block: &mut [u8; BYTES]) {
    *block = f32_to_f16(values[0]).to_le_bytes();
}

#[inline(always)]
pub fn decode(block: &[u8; BYTES], values: &mut [f32; ELEMS]) {
    values[0] = f16_to_f32(u16::from_le_bytes(*block));
}
