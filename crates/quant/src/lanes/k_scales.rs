//! [`k_scales`](crate::k_scales), a block a lane: what Q4_K and Q5_K share.

use fearless_simd::{Simd, prelude::*};
use fearless_simd_macros::simd;

use super::{half, nearest_int, nearest_level, scale_and_min::scale_and_min, to_float};
use crate::fit::Candidates;

const ELEMS: usize = 256;
const SUBS: usize = 8;
const SUB_ELEMS: usize = ELEMS / SUBS;

/// [`k_scales::fit`](crate::k_scales::fit): fills the head's four words and the levels, gives the wild lanes.
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
    let mut wild = S::mask32s::splat(simd, false);
    let (mut scales, mut mins, mut flat) = ([zero; SUBS], [zero; SUBS], [wild; SUBS]);
    let mut w = [[zero; SUB_ELEMS]; 2];
    let subs = x.as_chunks::<SUB_ELEMS>().0;
    for (pair, subs) in subs.as_chunks::<2>().0.iter().enumerate() {
        for (x, w) in subs.iter().zip(&mut w) {
            let mut sum = zero;
            for &x in x {
                sum += x * x;
            }
            let rms = (sum / splat(32.0)).sqrt();
            for (x, w) in x.iter().zip(w) {
                *w = rms + x.abs();
            }
        }
        let found = scale_and_min::<S, SUB_ELEMS, 2, false>(
            simd,
            subs.each_ref(),
            w.each_ref(),
            max_level,
            candidates,
        );
        wild |= found.wild;
        for g in 0..2 {
            scales[2 * pair + g] = found.scale[g];
            mins[2 * pair + g] = found.min[g];
            flat[2 * pair + g] = found.flat[g];
        }
    }

    let (mut max_scale, mut max_min) = (zero, zero);
    for sub in 0..SUBS {
        max_scale = scales[sub].simd_gt(max_scale).select(scales[sub], max_scale);
        max_min = mins[sub].simd_gt(max_min).select(mins[sub], max_min);
    }
    let inv_scale = max_scale.simd_gt(zero).select(splat(63.0) / max_scale, zero);
    let inv_min = max_min.simd_gt(zero).select(splat(63.0) / max_min, zero);
    let (mut scale_levels, mut min_levels) =
        ([S::u32s::splat(simd, 0); SUBS], [S::u32s::splat(simd, 0); SUBS]);
    for sub in 0..SUBS {
        scale_levels[sub] = six_bits(simd, inv_scale * scales[sub]);
        min_levels[sub] = six_bits(simd, inv_min * mins[sub]);
    }
    let (scale_bits, scale) = half(simd, max_scale / splat(63.0));
    let (min_bits, min) = half(simd, max_min / splat(63.0));
    head[0] = scale_bits | (min_bits << 16);
    pack(simd, &scale_levels, &min_levels, head);
    wild | round_again(simd, x, max_level, (scale, &scale_levels), (min, &min_levels), &flat, levels)
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
        head[1] |= (scales[i] | ((scales[i + 4] >> 4) << 6)) << shift;
        head[2] |= (mins[i] | ((mins[i + 4] >> 4) << 6)) << shift;
        head[3] |= ((scales[i + 4] & nibble) | ((mins[i + 4] & nibble) << 4)) << shift;
    }
}

/// Rounds the values with the scales that a reader will see. Where a sub-block's scale is zero the scalar
/// code keeps the levels of its search, which are not at hand here: all zero if the sub-block is flat, a
/// wild lane if not.
#[simd]
fn round_again<S: Simd>(
    simd: S,
    x: &[S::f32s; ELEMS],
    max_level: u8,
    (scale, scale_levels): (S::f32s, &[S::u32s; SUBS]),
    (min, min_levels): (S::f32s, &[S::u32s; SUBS]),
    flat: &[S::mask32s; SUBS],
    levels: &mut [S::u32s; ELEMS],
) -> S::mask32s {
    let mut wild = S::mask32s::splat(simd, false);
    let none = S::u32s::splat(simd, 0);
    for sub in 0..SUBS {
        let d = scale * to_float(simd, scale_levels[sub]);
        let m = min * to_float(simd, min_levels[sub]);
        let empty = d.simd_eq(S::f32s::splat(simd, 0.0));
        wild |= empty & !flat[sub];
        for i in sub * SUB_ELEMS..(sub + 1) * SUB_ELEMS {
            let level = nearest_level(simd, (x[i] + m) / d, u32::from(max_level));
            levels[i] = empty.select(none, level);
        }
    }
    wild
}
