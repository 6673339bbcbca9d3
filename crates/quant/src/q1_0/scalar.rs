//! The meaning of Q1_0.

use crate::block::{array_at_mut, f16_at, put_f16};

pub const ELEMS: usize = 128;
pub const BYTES: usize = 18;

/// Encodes a block: signs, and the mean magnitude. Both zeros count as positive.
#[inline(always)]
pub fn encode(values: &[f32; ELEMS], block: &mut [u8; BYTES]) {
    // The mean magnitude is the `d` that minimizes `sum (|x| - d)^2`.
    let magnitudes = values.iter().fold(0.0, |sum, x| sum + x.abs());
    put_f16(block, 0, magnitudes / 128.0);
    let bytes: &mut [u8; 16] = array_at_mut(block, 2);
    for (byte, values) in bytes.iter_mut().zip(values.as_chunks::<8>().0) {
        *byte = (0..8).fold(0, |byte, i| byte | u8::from(values[i] >= 0.0) << i);
    }
}

#[inline(always)]
pub fn decode(block: &[u8; BYTES], values: &mut [f32; ELEMS]) {
    let scale = f16_at(block, 0);
    for (values, byte) in values.as_chunks_mut::<8>().0.iter_mut().zip(&block[2..]) {
        *values = std::array::from_fn(|i| if byte >> i & 1 == 1 { scale } else { -scale });
    }
}
