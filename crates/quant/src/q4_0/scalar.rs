//! The meaning of Q4_0.

use crate::{
    block::{array_at, array_at_mut, f16_at, put_f16},
    fit::{importance_weights, largest, signed},
    nibbles,
    round::truncate_to_byte,
};

/// Elements in a block.
pub const ELEMS: usize = 32;
/// Bytes of a block.
pub const BYTES: usize = 18;

/// Encodes without importance weights: the value of largest magnitude becomes level 0 (-8).
#[inline(always)]
pub fn encode(values: &[f32; ELEMS], block: &mut [u8; BYTES]) {
    let scale = largest(values).0 / -8.0;
    let inv_scale = if scale != 0.0 { 1.0 / scale } else { 0.0 };
    put_f16(block, 0, scale);
    // 8 lifts levels to 0..=15, a half more makes cutting round. As far out as the extreme on the other side
    // would be 16.
    let levels = std::array::from_fn(|i| (truncate_to_byte(values[i] * inv_scale + 8.5) as i8).min(15) as u8);
    *array_at_mut(block, 2) = nibbles::pack(&levels);
}

/// Encodes with importance weights; `mean_square` is that of the row.
#[inline(never)]
pub fn encode_weighted(
    mean_square: f32,
    values: &[f32; ELEMS],
    importance: &[f32; ELEMS],
    block: &mut [u8; BYTES],
) {
    let weights = importance_weights(values, importance, mean_square);
    let mut levels = [0; ELEMS];
    let scale = signed(values, &weights, 8, &mut levels);
    put_f16(block, 0, scale);
    *array_at_mut(block, 2) = nibbles::pack(&levels);
}

/// Decodes a block.
#[inline(always)]
pub fn decode(block: &[u8; BYTES], values: &mut [f32; ELEMS]) {
    let scale = f16_at(block, 0);
    let levels = nibbles::unpack(array_at(block, 2));
    *values = std::array::from_fn(|i| (i32::from(levels[i]) - 8) as f32 * scale);
}
