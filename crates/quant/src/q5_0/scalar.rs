//! The meaning of Q5_0.

use crate::{
    block::{array_at, array_at_mut, f16_at, put_f16, put_u32, u32_at},
    fit::{importance_weights, largest, signed},
    nibbles,
    round::truncate_to_byte,
};

/// Elements in a block.
pub const ELEMS: usize = 32;
/// Bytes of a block.
pub const BYTES: usize = 22;

/// Encodes without importance weights: the value of largest magnitude becomes level 0 (-16).
#[inline(always)]
pub fn encode(values: &[f32; ELEMS], block: &mut [u8; BYTES]) {
    let scale = largest(values).0 / -16.0;
    let inv_scale = if scale != 0.0 { 1.0 / scale } else { 0.0 };
    // 16 lifts levels to 0..=31, a half more makes cutting round.
    let levels =
        std::array::from_fn(|i| (truncate_to_byte(values[i] * inv_scale + 16.5) as i8).min(31) as u8);
    write_block(scale, &levels, block);
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
    let scale = signed(values, &weights, 16, &mut levels);
    write_block(scale, &levels, block);
}

#[inline(always)]
fn write_block(scale: f32, levels: &[u8; ELEMS], block: &mut [u8; BYTES]) {
    put_f16(block, 0, scale);
    put_u32(block, 2, nibbles::fifth_bits(levels));
    *array_at_mut(block, 6) = nibbles::pack(levels);
}

/// Decodes a block.
#[inline(always)]
pub fn decode(block: &[u8; BYTES], values: &mut [f32; ELEMS]) {
    let scale = f16_at(block, 0);
    let levels = nibbles::unpack_five(array_at(block, 6), u32_at(block, 2));
    *values = std::array::from_fn(|i| (i32::from(levels[i]) - 16) as f32 * scale);
}
