//! The meaning of Q2_K.

use crate::{
    block::{array_at, array_at_mut, f16_at, put_f16},
    fit::{self, Candidates, WEIGHTED, scale_and_min},
    round::nearest_int,
    two_bits,
};

pub const ELEMS: usize = 256;
pub const BYTES: usize = 84;

pub const SUBS: usize = 16;
pub const SUB_ELEMS: usize = ELEMS / SUBS;
/// The candidate scales of the search without importance weights.
pub const CANDIDATES: Candidates = Candidates { first: -0.5, step: 0.1, n_steps: 15 };

/// Encodes a block, with importance weights if there are any.
#[inline(always)]
pub fn encode(values: &[f32; ELEMS], importance: Option<&[f32; ELEMS]>, block: &mut [u8; BYTES]) {
    match importance {
        None => encode_plain(values, block),
        Some(importance) => encode_weighted(values, importance, block),
    }
}

/// Encodes without importance weights: a sub-block's error is weighted by magnitude and not squared.
#[inline(never)]
fn encode_plain(values: &[f32; ELEMS], block: &mut [u8; BYTES]) {
    let mut levels = [0; ELEMS];
    let (mut scales, mut mins) = ([0.0; SUBS], [0.0; SUBS]);
    let (mut max_scale, mut max_min) = (0.0, 0.0);
    for sub in 0..SUBS {
        let x: &[f32; SUB_ELEMS] = array_at(values, sub * SUB_ELEMS);
        let levels = array_at_mut(&mut levels, sub * SUB_ELEMS);
        // Minimizes `sum |x| |d q + m - x|`.
        (scales[sub], mins[sub]) = scale_and_min::<_, true>(x, &x.map(f32::abs), 3, CANDIDATES, levels);
        if scales[sub] > max_scale {
            max_scale = scales[sub];
        }
        if mins[sub] > max_min {
            max_min = mins[sub];
        }
    }
    // Scales and minima become integers of 4 bits, in steps of the largest over 15.
    let inv_scale = if max_scale > 0.0 { 15.0 / max_scale } else { 0.0 };
    let inv_min = if max_min > 0.0 { 15.0 / max_min } else { 0.0 };
    let packed = std::array::from_fn(|sub| {
        let scale = if max_scale > 0.0 { nearest_int(inv_scale * scales[sub]) as u8 } else { 0 };
        let min = if max_min > 0.0 { nearest_int(inv_min * mins[sub]) as u8 } else { 0 };
        scale | min << 4
    });
    finish(values, packed, max_scale / 15.0, max_min / 15.0, &mut levels, block);
}

#[inline(never)]
fn encode_weighted(values: &[f32; ELEMS], importance: &[f32; ELEMS], block: &mut [u8; BYTES]) {
    // `w = importance * sqrt(mean(x^2) + x^2)`; Q3_K, Q4_K and Q5_K take twice the mean.
    let sigma2 = fit::sum_of_squares(values) / 256.0;
    let mut levels = [0; ELEMS];
    let (mut scales, mut mins, mut sum_w) = ([0.0; SUBS], [0.0; SUBS], [0.0; SUBS]);
    for sub in 0..SUBS {
        let x: &[f32; SUB_ELEMS] = array_at(values, sub * SUB_ELEMS);
        let weights = fit::importance_weights(x, array_at(importance, sub * SUB_ELEMS), sigma2);
        sum_w[sub] = fit::sum(&weights);
        let levels = array_at_mut(&mut levels, sub * SUB_ELEMS);
        (scales[sub], mins[sub]) = scale_and_min::<_, false>(x, &weights, 3, WEIGHTED, levels);
    }
    // The integers are searched with weights too: `scale_s ~ d * integer_s`.
    let (mut scale_levels, mut min_levels) = ([0; SUBS], [0; SUBS]);
    let scale = fit::unsigned(&scales, &sum_w, 15, &mut scale_levels);
    let min = fit::unsigned(&mins, &sum_w, 15, &mut min_levels);
    let packed = std::array::from_fn(|sub| scale_levels[sub] | min_levels[sub] << 4);
    finish(values, packed, scale, min, &mut levels, block);
}

/// Writes the scales, rounds the values again with the values that a reader will see, and packs the levels. A
/// sub-block whose scale is zero keeps the levels of its search.
#[inline(always)]
fn finish(
    values: &[f32; ELEMS],
    packed: [u8; SUBS],
    scale: f32,
    min: f32,
    levels: &mut [u8; ELEMS],
    block: &mut [u8; BYTES],
) {
    *array_at_mut(block, 0) = packed;
    let scale = put_f16(block, 80, scale);
    let min = put_f16(block, 82, min);
    for sub in 0..SUBS {
        let sub_scale = scale * f32::from(packed[sub] & 0x0f);
        if sub_scale == 0.0 {
            continue;
        }
        let sub_min = min * f32::from(packed[sub] >> 4);
        let x: &[f32; SUB_ELEMS] = array_at(values, sub * SUB_ELEMS);
        *array_at_mut::<SUB_ELEMS, _>(levels, sub * SUB_ELEMS) =
            x.map(|x| nearest_int((x + sub_min) / sub_scale).clamp(0, 3) as u8);
    }
    *array_at_mut(block, 16) = two_bits::pack(levels);
}

#[inline(always)]
pub fn decode(block: &[u8; BYTES], values: &mut [f32; ELEMS]) {
    let (scale, min) = (f16_at(block, 80), f16_at(block, 82));
    for (sub, values) in values.as_chunks_mut::<SUB_ELEMS>().0.iter_mut().enumerate() {
        let sub_scale = scale * f32::from(block[sub] & 0x0f);
        let sub_min = min * f32::from(block[sub] >> 4);
        let levels = two_bits::unpack(array_at(block, 16), sub);
        *values = levels.map(|level| sub_scale * f32::from(level) - sub_min);
    }
}
