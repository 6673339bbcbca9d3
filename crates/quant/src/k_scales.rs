//! Common part of Q4_K and Q5_K: 8 scales and 8 minima of 6 bits in 12 bytes, and the search for them.
//!
//! ```text
//! bytes 0..4    low 6 bits: scales 0 to 3; upper 2 bits: bits 4 and 5 of scales 4 to 7
//! bytes 4..8    low 6 bits: minima 0 to 3; upper 2 bits: bits 4 and 5 of minima 4 to 7
//! bytes 8..12   low half: low 4 bits of scales 4 to 7; high half: those of minima 4 to 7
//! ```
//!
//! Source: `get_scale_min_k4` and the two quantizers of each type in `ggml/src/ggml-quants.c`.

use crate::{
    block::{array_at, array_at_mut, f16_at, put_f16},
    fit::{self, Candidates, WEIGHTED},
    round::nearest_int,
};

pub const ELEMS: usize = 256;
const SUBS: usize = 8;
const SUB_ELEMS: usize = ELEMS / SUBS;

#[inline(always)]
pub fn pack(scales: &[u8; SUBS], mins: &[u8; SUBS]) -> [u8; 12] {
    std::array::from_fn(|i| match i {
        0..4 => scales[i] | (scales[i + 4] >> 4) << 6,
        4..8 => mins[i - 4] | (mins[i] >> 4) << 6,
        _ => (scales[i - 4] & 0x0f) | (mins[i - 4] & 0x0f) << 4,
    })
}

#[inline(always)]
pub fn unpack(bytes: &[u8; 12]) -> ([u8; SUBS], [u8; SUBS]) {
    let scales = std::array::from_fn(|i| match i {
        0..4 => bytes[i] & 63,
        _ => (bytes[i + 4] & 0x0f) | (bytes[i - 4] >> 6) << 4,
    });
    let mins = std::array::from_fn(|i| match i {
        0..4 => bytes[i + 4] & 63,
        _ => (bytes[i + 4] >> 4) | (bytes[i] >> 6) << 4,
    });
    (scales, mins)
}

/// The scale and minimum of each sub-block as floats: `x = scale * q - min`.
#[inline(always)]
pub fn read(head: &[u8; 16]) -> ([f32; SUBS], [f32; SUBS]) {
    let (scale, min) = (f16_at(head, 0), f16_at(head, 2));
    let (scales, mins) = unpack(array_at(head, 4));
    (scales.map(|level| scale * f32::from(level)), mins.map(|level| min * f32::from(level)))
}

/// Finds scales and levels without importance weights. The weight of an element is its magnitude plus the
/// root mean square of its sub-block.
#[inline(always)]
pub fn fit(
    values: &[f32; ELEMS],
    max_level: u8,
    candidates: Candidates,
    head: &mut [u8; 16],
    levels: &mut [u8; ELEMS],
) {
    let (mut scales, mut mins) = ([0.0; SUBS], [0.0; SUBS]);
    let (mut max_scale, mut max_min) = (0.0, 0.0);
    for sub in 0..SUBS {
        let x: &[f32; SUB_ELEMS] = array_at(values, sub * SUB_ELEMS);
        // `w = rms + |x|`: large values count more, but small ones also count.
        let rms = (fit::sum_of_squares(x) / 32.0).sqrt();
        let weights = x.map(|x| rms + x.abs());
        let levels = array_at_mut(levels, sub * SUB_ELEMS);
        (scales[sub], mins[sub]) = fit::scale_and_min::<_, false>(x, &weights, max_level, candidates, levels);
        if scales[sub] > max_scale {
            max_scale = scales[sub];
        }
        if mins[sub] > max_min {
            max_min = mins[sub];
        }
    }
    // The eight scales become 6-bit integers, in steps of the largest over 63; likewise the minima.
    let inv_scale = if max_scale > 0.0 { 63.0 / max_scale } else { 0.0 };
    let inv_min = if max_min > 0.0 { 63.0 / max_min } else { 0.0 };
    let scales = scales.map(|scale| (nearest_int(inv_scale * scale) as u8).min(63));
    let mins = mins.map(|min| (nearest_int(inv_min * min) as u8).min(63));
    put_f16(head, 0, max_scale / 63.0);
    put_f16(head, 2, max_min / 63.0);
    *array_at_mut(head, 4) = pack(&scales, &mins);
    round_again(values, max_level, head, levels);
}

/// Finds scales and levels with importance weights. `max_scale` bounds the packed scales: if rounding errors
/// make a scale negative, the reference's Q5_K cuts the wrapped level to 6 bits and Q4_K does not.
#[inline(always)]
pub fn fit_weighted(
    values: &[f32; ELEMS],
    importance: &[f32; ELEMS],
    max_level: u8,
    max_scale: u8,
    head: &mut [u8; 16],
    levels: &mut [u8; ELEMS],
) {
    // `w = importance * sqrt(2 mean(x^2) + x^2)`, the mean over the block.
    let sigma2 = 2.0 * fit::sum_of_squares(values) / 256.0;
    let (mut scales, mut mins, mut sum_w) = ([0.0; SUBS], [0.0; SUBS], [0.0; SUBS]);
    for sub in 0..SUBS {
        let x: &[f32; SUB_ELEMS] = array_at(values, sub * SUB_ELEMS);
        let weights = fit::importance_weights(x, array_at(importance, sub * SUB_ELEMS), sigma2);
        sum_w[sub] = fit::sum(&weights);
        let levels = array_at_mut(levels, sub * SUB_ELEMS);
        (scales[sub], mins[sub]) = fit::scale_and_min::<_, false>(x, &weights, max_level, WEIGHTED, levels);
    }
    // The integers of the scales are searched like levels of values: `scale_s ~ d * integer_s`, with the
    // total weight of each sub-block's elements.
    let (mut scale_levels, mut min_levels) = ([0; SUBS], [0; SUBS]);
    let scale = fit::unsigned(&scales, &sum_w, 63, &mut scale_levels);
    let min = fit::unsigned(&mins, &sum_w, 63, &mut min_levels);
    put_f16(head, 0, scale);
    put_f16(head, 2, min);
    *array_at_mut(head, 4) =
        pack(&scale_levels.map(|level| level.min(max_scale)), &min_levels.map(|level| level.min(max_scale)));
    round_again(values, max_level, head, levels);
}

/// Rounds the values again with the scales that a reader will see. A sub-block whose scale is zero keeps the
/// levels of its search.
#[inline(always)]
fn round_again(values: &[f32; ELEMS], max_level: u8, head: &[u8; 16], levels: &mut [u8; ELEMS]) {
    let (scales, mins) = read(head);
    for sub in 0..SUBS {
        if scales[sub] == 0.0 {
            continue;
        }
        let x: &[f32; SUB_ELEMS] = array_at(values, sub * SUB_ELEMS);
        *array_at_mut::<SUB_ELEMS, _>(levels, sub * SUB_ELEMS) =
            x.map(|x| nearest_int((x + mins[sub]) / scales[sub]).clamp(0, i32::from(max_level)) as u8);
    }
}
