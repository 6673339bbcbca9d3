//! The meaning of Q4_0, Q4_1, Q5_0 and Q5_1.

use super::{ELEMS, Layout};
use crate::{
    Rows,
    block::{encode_rows, f16_at, put_f16},
    fit::{WEIGHTED, importance_weights, largest, mean_square, range, scale_and_min, signed},
    frozen::Frozen,
    round::truncate_to_byte,
};

/// Encodes without importance weights. The range of the values is divided into equal steps if there is a
/// minimum; otherwise the value of largest magnitude becomes level 0, which is `-HALF`.
#[inline(always)]
pub fn encode<T: Layout<B>, const B: usize>(values: &[f32; ELEMS], block: &mut [u8; B]) {
    let half = f32::from(T::HALF);
    let (scale, min) = if T::HAS_MIN {
        let (min, max) = range(values);
        ((max - min) / f32::from(T::MAX_LEVEL), min)
    } else {
        (largest(values).0 / -half, 0.0)
    };
    let inv_scale = if scale != 0.0 { 1.0 / scale } else { 0.0 };
    // The offset raises the lowest level to 0, and a half more makes truncation round. A value with the
    // magnitude of the extreme on the other side would get a level that is one too high.
    let offset = if T::HAS_MIN { 0.5 } else { half + 0.5 };
    let levels = std::array::from_fn(|i| {
        let level = truncate_to_byte((values[i] - min) * inv_scale + offset);
        if T::BOUNDED { (level as i8).min(T::MAX_LEVEL as i8) as u8 } else { level }
    });
    put_block::<T, B>(scale, min, &levels, block);
}

#[inline(always)]
pub fn encode_weighted_rows<T: Layout<B>, const B: usize>(rows: Rows<'_>, out: &mut [u8]) {
    let row_bytes = rows.row_elems / ELEMS * B;
    for (values, out) in rows.values.chunks_exact(rows.row_elems).zip(out.chunks_exact_mut(row_bytes)) {
        // Once per row instead of once per block.
        let mean_square = mean_square(values);
        encode_rows(Rows { values, ..rows }, out, |values, importance, block| {
            let importance = importance.expect("this is the search with importance weights");
            encode_weighted::<T, B>(mean_square, values, importance, block);
        });
    }
}

/// Encodes with importance weights; `mean_square` is that of the row.
#[inline(never)]
pub fn encode_weighted<T: Layout<B>, const B: usize>(
    mean_square: f32,
    values: &[f32; ELEMS],
    importance: &[f32; ELEMS],
    block: &mut [u8; B],
) {
    let weights = importance_weights(values, importance, mean_square);
    let mut levels = [0; ELEMS];
    let (scale, neg_min) = if T::HAS_MIN {
        scale_and_min::<_, false>(values, &weights, T::MAX_LEVEL, WEIGHTED, &mut levels)
    } else {
        (signed(values, &weights, T::HALF, &mut levels), 0.0)
    };
    put_block::<T, B>(scale, -neg_min, &levels, block);
}

#[inline(always)]
fn put_block<T: Layout<B>, const B: usize>(scale: f32, min: f32, levels: &[u8; ELEMS], block: &mut [u8; B]) {
    put_f16(block, 0, scale);
    if T::HAS_MIN {
        put_f16(block, 2, min);
    }
    T::put_levels(levels, block);
}

#[inline(always)]
pub fn decode<T: Layout<B>, const B: usize>(block: &[u8; B], values: &mut [f32; ELEMS]) {
    let scale = f16_at(block, 0);
    let levels = T::levels(block);
    *values = if T::HAS_MIN {
        let min = f16_at(block, 2);
        levels.map(|level| f32::from(level) * scale + min)
    } else {
        levels.map(|level| (i32::from(level) - i32::from(T::HALF)) as f32 * scale)
    };
}
