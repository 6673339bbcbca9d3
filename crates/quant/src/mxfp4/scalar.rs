//! The meaning of MXFP4.

use crate::{
    block::{array_at, array_at_mut},
    e2m1,
    fit::largest,
    nibbles,
    round::floor_log2,
};

pub const ELEMS: usize = 32;
pub const BYTES: usize = 17;

/// Encodes a block. The exponent of the largest magnitude becomes that of the largest e2m1 value; below
/// 2^-125 the reference's exponent wraps around in its byte, and so does this one.
///
/// `nearest` is [`e2m1::nearest`] or equal to it.
#[inline(always)]
pub fn encode(
    values: &[f32; ELEMS],
    block: &mut [u8; BYTES],
    nearest: impl Fn(&[f32; ELEMS], f32) -> [u8; ELEMS],
) {
    let magnitude = largest(values).1;
    // `floor(log2(max |x|))`, minus 2 for the exponent of 4 and 6, the largest e2m1 values, plus the bias of
    // 127.
    let exponent = if magnitude > 0.0 && magnitude < f32::INFINITY {
        (floor_log2(magnitude) - 2 + 127) as u8
    } else {
        0
    };
    block[0] = exponent;
    *array_at_mut(block, 1) = nibbles::pack(&nearest(values, half_of_e8m0(exponent)));
}

/// `2^(exponent - 128)`: half of the exponent's value, because the e2m1 values are doubled.
#[inline(always)]
pub fn half_of_e8m0(exponent: u8) -> f32 {
    let exponent = u32::from(exponent);
    f32::from_bits(if exponent < 2 { 0x0020_0000 << exponent } else { (exponent - 1) << 23 })
}

#[inline(always)]
pub fn decode(block: &[u8; BYTES], values: &mut [f32; ELEMS]) {
    let scale = half_of_e8m0(block[0]);
    let levels = nibbles::unpack(array_at(block, 1));
    *values = levels.map(|level| f32::from(e2m1::VALUES[usize::from(level)]) * scale);
}
