//! [`fit::signed`](crate::fit::signed), one (sub-)block per lane.
//!
//! The candidate scales are independent, so four or five are summed up in parallel: that hides the latency of
//! the additions and loads each element once for all.

use fearless_simd::{Simd, prelude::*};
use fearless_simd_macros::simd;

use super::{MAGIC, nearest_int};
use crate::fit::SMALLEST_GROUP;

/// Result of the search for one vector of (sub-)blocks.
#[derive(Clone, Copy)]
pub struct Found<S: Simd> {
    /// Scale; 0 if the values are practically zero.
    pub scale: S::f32s,
    /// The levels are `x * inv_scale`.
    pub inv_scale: S::f32s,
    /// Lanes whose values are practically zero and whose levels are all stored as 0.
    pub empty: S::mask32s,
}

impl<S: Simd> Found<S> {
    #[inline(always)]
    pub fn none(simd: S) -> Self {
        let zero = S::f32s::splat(simd, 0.0);
        Found { scale: zero, inv_scale: zero, empty: S::mask32s::splat(simd, true) }
    }

    /// The level that the search gave to an element, as stored: plus `half`.
    #[inline(always)]
    pub fn searched_level(&self, simd: S, x: S::f32s, half: u8) -> S::u32s {
        let level = stored_level(simd, self.inv_scale * x, half);
        self.empty.select(S::u32s::splat(simd, 0), level)
    }
}

/// `nearest_int(value).clamp(-half, half - 1) + half`.
#[simd]
pub fn stored_level<S: Simd>(simd: S, value: S::f32s, half: u8) -> S::u32s {
    let half = i32::from(half);
    let (low, high) = (S::i32s::splat(simd, -half), S::i32s::splat(simd, half - 1));
    (nearest_int(simd, value).bitcast::<S::i32s>().max(low).min(high) - low).bitcast()
}

/// The value of largest magnitude, the first of equals, with its sign; and that magnitude.
#[simd]
pub fn largest<S: Simd, const N: usize>(simd: S, x: &[S::f32s; N]) -> (S::f32s, S::f32s) {
    let zero = S::f32s::splat(simd, 0.0);
    let (mut max, mut magnitude) = (zero, zero);
    for x in x {
        // Only a larger magnitude replaces, so the first of equals stays.
        let size = x.abs();
        let larger = size.simd_gt(magnitude);
        magnitude = larger.select(size, magnitude);
        max = larger.select(*x, max);
    }
    (max, magnitude)
}

/// The value of largest magnitude like [`largest`], and the two ends of the range, including zero. Arbitrary
/// in lanes with a NaN.
#[simd]
pub fn ends<S: Simd, const N: usize>(simd: S, x: &[S::f32s; N]) -> (S::f32s, [S::f32s; 2]) {
    let zero = S::f32s::splat(simd, 0.0);
    // Four of each, to hide latency.
    let (mut lows, mut highs) = ([zero; 4], [zero; 4]);
    const { assert!(N.is_multiple_of(4)) };
    for x in x.as_chunks::<4>().0 {
        for i in 0..4 {
            lows[i] = lows[i].min(x[i]);
            highs[i] = highs[i].max(x[i]);
        }
    }
    // The end farther from zero is the value of largest magnitude. If both are equally far, the slow scan
    // finds the first; few units need it.
    let low = lows[0].min(lows[1]).min(lows[2].min(lows[3]));
    let high = highs[0].max(highs[1]).max(highs[2].max(highs[3]));
    let max = high.simd_gt(-low).select(high, low);
    let tie = high.simd_eq(-low) & high.simd_gt(zero);
    let max = if tie.any_true() { tie.select(largest(simd, x).0, max) } else { max };
    (max, [low, high])
}

/// Fits one vector of (sub-)blocks; adds its wild lanes to `wild`.
#[simd]
pub fn signed<S: Simd, const N: usize>(
    simd: S,
    x: &[S::f32s; N],
    w: &[S::f32s; N],
    half: u8,
    wild: &mut S::mask32s,
) -> Found<S> {
    let splat = |value: f32| S::f32s::splat(simd, value);
    let (zero, half) = (splat(0.0), f32::from(half));
    let (max, [low, high]) = ends(simd, x);
    let empty = max.abs().simd_lt(splat(SMALLEST_GROUP));
    // `w x`, which all candidates share.
    let mut weighted = [zero; N];
    for i in 0..N {
        weighted[i] = w[i] * x[i];
    }
    // True if any candidate raises the other end above the highest level. The last one stretches most: if it
    // does not, no candidate needs an upper bound.
    let widest = splat(-(half + 0.1 * 9.0)) / max;
    let ceiling = splat(MAGIC + half - 1.0);
    let crowded =
        (widest * low + splat(MAGIC)).simd_gt(ceiling) | (widest * high + splat(MAGIC)).simd_gt(ceiling);
    let crowded = (crowded & !empty).any_true();

    let mut search =
        Search { x, w, weighted: &weighted, half, max, crowded, chosen: zero, scale: zero, best: zero };
    // Steps of the candidates in the reference's order: the extreme value becomes `-(half + step / 10)`, so
    // that only the last ones have values below the lowest level. Groups of five and four in parallel, in the
    // order of the reference, which decides among equals.
    let sum_lx = try_steps::<S, N, 5, false>(simd, &mut search, [0.0, -9.0, -8.0, -7.0, -6.0]);
    // Infinity or NaN anywhere shows in this sum.
    *wild |= !empty & !sum_lx.abs().simd_lt(splat(f32::INFINITY));
    try_steps::<S, N, 5, false>(simd, &mut search, [-5.0, -4.0, -3.0, -2.0, -1.0]);
    try_steps::<S, N, 4, false>(simd, &mut search, [1.0, 2.0, 3.0, 4.0]);
    try_steps::<S, N, 5, true>(simd, &mut search, [5.0, 6.0, 7.0, 8.0, 9.0]);
    let (scale, chosen) = (search.scale, search.chosen);
    Found { scale: empty.select(zero, scale), inv_scale: empty.select(zero, chosen), empty }
}

struct Search<'a, S: Simd, const N: usize> {
    x: &'a [S::f32s; N],
    w: &'a [S::f32s; N],
    weighted: &'a [S::f32s; N],
    half: f32,
    max: S::f32s,
    crowded: bool,
    chosen: S::f32s,
    scale: S::f32s,
    best: S::f32s,
}

/// Tries some candidates and keeps the best; that of step 0 is always kept. Returns the first one's sum of
/// `weight * x * level`.
#[simd]
fn try_steps<S: Simd, const N: usize, const SIDES: usize, const LOW: bool>(
    simd: S,
    search: &mut Search<'_, S, N>,
    steps: [f32; SIDES],
) -> S::f32s {
    let zero = S::f32s::splat(simd, 0.0);
    let (x, w, weighted, half) = (search.x, search.w, search.weighted, search.half);
    let inv_scales = steps.map(|step| S::f32s::splat(simd, -(half + 0.1 * step)) / search.max);
    let (sums_lx, sums_l2) = if search.crowded {
        sums::<S, N, SIDES, LOW, true>(simd, x, w, weighted, half, inv_scales)
    } else {
        sums::<S, N, SIDES, LOW, false>(simd, x, w, weighted, half, inv_scales)
    };
    for c in 0..SIDES {
        let (sum_lx, sum_l2) = (sums_lx[c], sums_l2[c]);
        // `d = lx / l2` is the best scale for these levels, and `lx^2 / l2` its reduction of the error;
        // `best` is that of the chosen candidate.
        let mut scale = sum_lx / sum_l2;
        let mut better = sum_l2.simd_gt(zero) & (sum_lx * sum_lx).simd_gt(search.best * sum_l2);
        if steps[c] == 0.0 {
            scale = sum_l2.simd_eq(zero).select(zero, scale);
            better = S::mask32s::splat(simd, true);
        }
        search.chosen = better.select(inv_scales[c], search.chosen);
        search.scale = better.select(scale, search.scale);
        search.best = better.select(scale * sum_lx, search.best);
    }
    sums_lx[0]
}

/// Sums of `weight * x * level` and `weight * level^2` of some candidates; clamps only at the ends that can
/// be exceeded.
#[simd]
fn sums<S: Simd, const N: usize, const SIDES: usize, const LOW: bool, const HIGH: bool>(
    simd: S,
    x: &[S::f32s; N],
    w: &[S::f32s; N],
    weighted: &[S::f32s; N],
    half: f32,
    inv_scales: [S::f32s; SIDES],
) -> ([S::f32s; SIDES], [S::f32s; SIDES]) {
    let splat = |value: f32| S::f32s::splat(simd, value);
    let (magic, floor, ceiling) = (splat(MAGIC), splat(MAGIC - half), splat(MAGIC + half - 1.0));
    let (mut sums_lx, mut sums_l2) = ([splat(0.0); SIDES], [splat(0.0); SIDES]);
    for i in 0..N {
        for c in 0..SIDES {
            // `q = clamp(round(x * inv_scale))`, clamped before subtracting the magic number.
            let mut level = inv_scales[c] * x[i] + magic;
            if LOW {
                level = level.max(floor);
            }
            if HIGH {
                level = level.min(ceiling);
            }
            let level = level - magic;
            sums_lx[c] += weighted[i] * level;
            sums_l2[c] += w[i] * level * level;
        }
    }
    (sums_lx, sums_l2)
}
