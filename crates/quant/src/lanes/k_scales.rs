//! [`k_scales`](crate::k_scales), one block per lane: the common part of Q4_K and Q5_K.

use fearless_simd::{Simd, prelude::*};
use fearless_simd_macros::simd;

use super::{
    divide_to_levels, half, nearest_int,
    scale_and_min::{Found, scale_and_min, searched_level},
    sum_of_squares, to_float,
    unsigned::unsigned,
};
use crate::{
    block::{array_at, array_at_mut},
    fit::{Candidates, WEIGHTED},
};

const ELEMS: usize = 256;
const SUBS: usize = 8;
const SUB_ELEMS: usize = ELEMS / SUBS;
/// Sub-blocks of a block that are searched together.
const BATCH: usize = 4;

/// [`k_scales::fit`](crate::k_scales::fit): fills the head's four words and the levels, returns the wild
/// lanes.
#[simd]
pub fn fit<S: Simd>(
    simd: S,
    x: &[S::f32s; ELEMS],
    max_level: u8,
    candidates: Candidates,
    head: &mut [S::u32s; 4],
    levels: &mut [S::u32s; ELEMS],
) -> S::mask32s {
    let splat = |value: f32| S::f32s::splat(simd, value);
    let zero = splat(0.0);
    let mut w = [[zero; SUB_ELEMS]; BATCH];
    let mut found = [[Found::none(simd); 2]; SUBS / 2];
    let mut wild = S::mask32s::splat(simd, false);
    for (x, found) in
        x.as_chunks::<{ BATCH * SUB_ELEMS }>().0.iter().zip(found.as_chunks_mut::<{ BATCH / 2 }>().0)
    {
        let x: &[[S::f32s; SUB_ELEMS]; BATCH] = array_at(x.as_chunks().0, 0);
        // `w = sqrt(sum x^2 / 32) + |x|` of four sub-blocks in parallel.
        let mut sums = [zero; BATCH];
        for i in 0..SUB_ELEMS {
            for g in 0..BATCH {
                sums[g] += x[g][i] * x[g][i];
            }
        }
        for g in 0..BATCH {
            let rms = (sums[g] / splat(32.0)).sqrt();
            for i in 0..SUB_ELEMS {
                w[g][i] = rms + x[g][i].abs();
            }
        }
        wild |= search(simd, x, &w, max_level, candidates, found);
    }
    let found = found.as_flattened();

    // Scales and minima become 6-bit integers, in steps of the largest over 63.
    let (mut max_scale, mut max_min) = (zero, zero);
    for found in found {
        max_scale = found.scale.simd_gt(max_scale).select(found.scale, max_scale);
        max_min = found.min.simd_gt(max_min).select(found.min, max_min);
    }
    let inv_scale = max_scale.simd_gt(zero).select(splat(63.0) / max_scale, zero);
    let inv_min = max_min.simd_gt(zero).select(splat(63.0) / max_min, zero);
    let (mut scale_levels, mut min_levels) =
        ([S::u32s::splat(simd, 0); SUBS], [S::u32s::splat(simd, 0); SUBS]);
    for sub in 0..SUBS {
        scale_levels[sub] = six_bits(simd, inv_scale * found[sub].scale);
        min_levels[sub] = six_bits(simd, inv_min * found[sub].min);
    }
    let (scale_bits, scale) = half(simd, max_scale / splat(63.0));
    let (min_bits, min) = half(simd, max_min / splat(63.0));
    head[0] = scale_bits | (min_bits << 16);
    pack(simd, &scale_levels, &min_levels, head);
    round_again(simd, x, max_level, (scale, &scale_levels), (min, &min_levels), found, levels);
    wild
}

/// [`k_scales::fit_weighted`](crate::k_scales::fit_weighted), like [`fit`].
#[simd]
pub fn fit_weighted<S: Simd>(
    simd: S,
    x: &[S::f32s; ELEMS],
    importance: &[S::f32s; ELEMS],
    max_level: u8,
    max_scale: u8,
    head: &mut [S::u32s; 4],
    levels: &mut [S::u32s; ELEMS],
) -> S::mask32s {
    let splat = |value: f32| S::f32s::splat(simd, value);
    let zero = splat(0.0);
    let sigma2 = splat(2.0) * sum_of_squares(simd, x) / splat(256.0);
    let mut w = [[zero; SUB_ELEMS]; BATCH];
    let mut sum_w = [zero; SUBS];
    let mut found = [[Found::none(simd); 2]; SUBS / 2];
    let mut wild = S::mask32s::splat(simd, false);
    for batch in 0..SUBS / BATCH {
        let x: &[[S::f32s; SUB_ELEMS]; BATCH] = array_at(x.as_chunks().0, batch * BATCH);
        let importance: &[[S::f32s; SUB_ELEMS]; BATCH] = array_at(importance.as_chunks().0, batch * BATCH);
        // `w = importance * sqrt(sigma2 + x^2)` and its sum, which weighs the sub-block below.
        let sums: &mut [S::f32s; BATCH] = array_at_mut(&mut sum_w, batch * BATCH);
        for i in 0..SUB_ELEMS {
            for g in 0..BATCH {
                w[g][i] = importance[g][i] * (sigma2 + x[g][i] * x[g][i]).sqrt();
                sums[g] += w[g][i];
            }
        }
        let found = array_at_mut(&mut found, batch * BATCH / 2);
        wild |= search(simd, x, &w, max_level, WEIGHTED, found);
    }
    let found = found.as_flattened();

    // Here the integers are searched with weights: `scale_s ~ d * integer_s`, likewise the minima.
    let mut numbers = [[zero; SUBS]; 2];
    for sub in 0..SUBS {
        numbers[0][sub] = found[sub].scale;
        numbers[1][sub] = found[sub].min;
    }
    let mut ideal = [[S::u32s::splat(simd, 0); SUBS]; 2];
    let [scale, min] = unsigned(simd, numbers.each_ref(), [&sum_w; 2], 63, &mut ideal);
    // The sign of a NaN may differ from the scalar code.
    wild |= !(scale.simd_eq(scale) & min.simd_eq(min));
    let (scale_bits, scale) = half(simd, scale);
    let (min_bits, min) = half(simd, min);
    head[0] = scale_bits | (min_bits << 16);
    let bound = S::u32s::splat(simd, u32::from(max_scale));
    let [scale_levels, min_levels] = &mut ideal;
    let mut wide = S::u32s::splat(simd, 0);
    for level in scale_levels.iter_mut().chain(min_levels.iter_mut()) {
        *level = (*level).min(bound);
        wide |= *level;
    }
    // Wrapped levels of more than 6 bits overflow into their neighbors, which the scalar code handles.
    wild |= wide.simd_gt(S::u32s::splat(simd, 63));
    pack(simd, scale_levels, min_levels, head);
    round_again(simd, x, max_level, (scale, scale_levels), (min, min_levels), found, levels);
    wild
}

/// Searches a batch of sub-blocks of all lanes.
#[simd]
fn search<S: Simd>(
    simd: S,
    x: &[[S::f32s; SUB_ELEMS]; BATCH],
    w: &[[S::f32s; SUB_ELEMS]; BATCH],
    max_level: u8,
    candidates: Candidates,
    found: &mut [[Found<S>; 2]; BATCH / 2],
) -> S::mask32s {
    scale_and_min::<S, SUB_ELEMS, { BATCH / 2 }, false>(
        simd,
        [[&x[0], &x[1]], [&x[2], &x[3]]],
        [[&w[0], &w[1]], [&w[2], &w[3]]],
        max_level,
        candidates,
        found,
    )
}

/// `(nearest_int(value) as u8).min(63)`.
#[simd]
fn six_bits<S: Simd>(simd: S, value: S::f32s) -> S::u32s {
    (nearest_int(simd, value) & S::u32s::splat(simd, 0xff)).min(S::u32s::splat(simd, 63))
}

/// [`k_scales::pack`](crate::k_scales::pack) into words 1 to 3 of the head.
#[simd]
fn pack<S: Simd>(simd: S, scales: &[S::u32s; SUBS], mins: &[S::u32s; SUBS], head: &mut [S::u32s; 4]) {
    let nibble = S::u32s::splat(simd, 0x0f);
    head[1..].fill(S::u32s::splat(simd, 0));
    for i in 0..4 {
        let shift = 8 * i as u32;
        // Words 1 and 2: six bits of numbers 0 to 3, above them bits 4 and 5 of numbers 4 to 7. Word 3: their
        // low four bits.
        head[1] |= (scales[i] | ((scales[i + 4] >> 4) << 6)) << shift;
        head[2] |= (mins[i] | ((mins[i + 4] >> 4) << 6)) << shift;
        head[3] |= ((scales[i + 4] & nibble) | ((mins[i + 4] & nibble) << 4)) << shift;
    }
}

/// Rounds the values with the scales that a reader will see. If a sub-block's scale is zero, the levels of
/// its search stay.
#[simd]
fn round_again<S: Simd>(
    simd: S,
    x: &[S::f32s; ELEMS],
    max_level: u8,
    (scale, scale_levels): (S::f32s, &[S::u32s; SUBS]),
    (min, min_levels): (S::f32s, &[S::u32s; SUBS]),
    found: &[Found<S>],
    levels: &mut [S::u32s; ELEMS],
) {
    let top = i32::from(max_level);
    for sub in 0..SUBS {
        // `q = round((x + m) / d)` with the file's `d` and `m`.
        let d = scale * to_float(simd, scale_levels[sub]);
        let m = min * to_float(simd, min_levels[sub]);
        let x: &[S::f32s; SUB_ELEMS] = array_at(x, sub * SUB_ELEMS);
        let levels: &mut [S::u32s; SUB_ELEMS] = array_at_mut(levels, sub * SUB_ELEMS);
        divide_to_levels(simd, x, Some(m), d, 0, top, levels);
        let empty = d.simd_eq(S::f32s::splat(simd, 0.0));
        if empty.any_true() {
            for i in 0..SUB_ELEMS {
                levels[i] =
                    empty.select(searched_level(simd, &found[sub], x[i], u32::from(max_level)), levels[i]);
            }
        }
    }
}

/// The low 4 bits of all levels: byte `32 * p + i` contains element `i` of sub-blocks `2 * p` and
/// `2 * p + 1`.
#[simd]
pub fn put_nibbles<S: Simd>(simd: S, levels: &[S::u32s; ELEMS], words: &mut [S::u32s; 32]) {
    let nibble = S::u32s::splat(simd, 0x0f);
    for (levels, words) in levels.as_chunks::<64>().0.iter().zip(words.as_chunks_mut::<8>().0) {
        for (at, word) in words.iter_mut().enumerate() {
            *word = S::u32s::splat(simd, 0);
            for byte in 0..4 {
                let i = 4 * at + byte;
                let both = (levels[i] & nibble) | ((levels[i + 32] & nibble) << 4);
                *word |= both << (8 * byte as u32);
            }
        }
    }
}
