//! The meaning of Q5_1.

use crate::{
    block::{array_at, array_at_mut, f16_at, put_f16, put_u32, u32_at},
    fit::{WEIGHTED, importance_weights, range, scale_and_min},
    nibbles,
    round::truncate_to_byte,
};

/// Elements in a block.
pub const ELEMS: usize = 32;
/// Bytes of a block.
pub const BYTES: usize = 24;

/// Encodes without importance weights: the range of the values is cut into 31 steps.
#[inline(always)]
pub fn encode(values: &[f32; ELEMS], block: &mut [u8; BYTES]) {
    let (min, max) = range(values);
    let scale = (max - min) / 31.0;
    let inv_scale = if scale != 0.0 { 1.0 / scale } else { 0.0 };
    // From 0.5 to 31.5, cut to integers; the reference sets no bound here.
    let levels = std::array::from_fn(|i| truncate_to_byte((values[i] - min) * inv_scale + 0.5));
    write_block(scale, min, &levels, block);
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
    let (scale, neg_min) = scale_and_min::<_, false>(values, &weights, 31, WEIGHTED, &mut levels);
    write_block(scale, -neg_min, &levels, block);
}

#[inline(always)]
fn write_block(scale: f32, min: f32, levels: &[u8; ELEMS], block: &mut [u8; BYTES]) {
    put_f16(block, 0, scale);
    put_f16(block, 2, min);
    put_u32(block, 4, nibbles::fifth_bits(levels));
    *array_at_mut(block, 8) = nibbles::pack(levels);
}

/// Decodes a block.
#[inline(always)]
pub fn decode(block: &[u8; BYTES], values: &mut [f32; ELEMS]) {
    let (scale, min) = (f16_at(block, 0), f16_at(block, 2));
    let levels = nibbles::unpack_five(array_at(block, 8), u32_at(block, 4));
    *values = std::array::from_fn(|i| f32::from(levels[i]) * scale + min);
}
