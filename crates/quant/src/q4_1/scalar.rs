//! The meaning of Q4_1.

use crate::{
    block::{array_at, array_at_mut, f16_at, put_f16},
    fit::{WEIGHTED, importance_weights, range, scale_and_min},
    nibbles,
    round::truncate_to_byte,
};

/// Elements in a block.
pub const ELEMS: usize = 32;
/// Bytes of a block.
pub const BYTES: usize = 20;

/// Encodes without importance weights: the range of the values is cut into 15 steps.
#[inline(always)]
pub fn encode(values: &[f32; ELEMS], block: &mut [u8; BYTES]) {
    let (min, max) = range(values);
    let scale = (max - min) / 15.0;
    let inv_scale = if scale != 0.0 { 1.0 / scale } else { 0.0 };
    put_f16(block, 0, scale);
    put_f16(block, 2, min);
    // From 0.5 to 15.5, cut to integers.
    let levels =
        std::array::from_fn(|i| (truncate_to_byte((values[i] - min) * inv_scale + 0.5) as i8).min(15) as u8);
    *array_at_mut(block, 4) = nibbles::pack(&levels);
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
    let (scale, neg_min) = scale_and_min::<_, false>(values, &weights, 15, WEIGHTED, &mut levels);
    put_f16(block, 0, scale);
    put_f16(block, 2, -neg_min);
    *array_at_mut(block, 4) = nibbles::pack(&levels);
}

/// Decodes a block.
#[inline(always)]
pub fn decode(block: &[u8; BYTES], values: &mut [f32; ELEMS]) {
    let (scale, min) = (f16_at(block, 0), f16_at(block, 2));
    let levels = nibbles::unpack(array_at(block, 4));
    *values = std::array::from_fn(|i| f32::from(levels[i]) * scale + min);
}
