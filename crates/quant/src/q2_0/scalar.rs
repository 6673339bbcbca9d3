//! The meaning of Q2_0.

use crate::{
    block::{array_at_mut, f16_at, put_f16},
    fit::largest,
};

pub const ELEMS: usize = 64;
pub const BYTES: usize = 18;

/// Encodes a block: the largest magnitude becomes 1, so level 3 (+2) is never written.
#[inline(always)]
pub fn encode(values: &[f32; ELEMS], block: &mut [u8; BYTES]) {
    let scale = largest(values).1;
    let inv_scale = if scale > 0.0 { 1.0 / scale } else { 0.0 };
    put_f16(block, 0, scale);
    // Halves are rounded away from zero. Values out of range (a quotient by infinity or by less than the
    // smallest normal number, NaN) are the smallest integer in the reference, so they become level 0.
    let levels = values.map(|x| {
        let steps = x * inv_scale;
        let level = 1 + u8::from(steps >= 0.5) - u8::from(steps <= -0.5);
        if steps.abs() < 1.5 { level } else { 0 }
    });
    let bytes: &mut [u8; 16] = array_at_mut(block, 2);
    for (byte, levels) in bytes.iter_mut().zip(levels.as_chunks::<4>().0) {
        *byte = levels[0] | levels[1] << 2 | levels[2] << 4 | levels[3] << 6;
    }
}

#[inline(always)]
pub fn decode(block: &[u8; BYTES], values: &mut [f32; ELEMS]) {
    let scale = f16_at(block, 0);
    for (values, byte) in values.as_chunks_mut::<4>().0.iter_mut().zip(&block[2..]) {
        *values = std::array::from_fn(|i| (i32::from(byte >> (2 * i) & 3) - 1) as f32 * scale);
    }
}
