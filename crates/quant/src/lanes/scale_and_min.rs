//! [`fit::scale_and_min`](crate::fit::scale_and_min), a (sub-)block a lane.

use fearless_simd::{Simd, prelude::*};
use fearless_simd_macros::simd;

use super::MAGIC;
use crate::fit::Candidates;

/// What the search found for `G` groups of lanes.
pub struct Found<S: Simd, const G: usize> {
    /// The scale; 0 where the values are flat.
    pub scale: [S::f32s; G],
    /// The minimum, negated.
    pub min: [S::f32s; G],
    /// Lanes whose values are all equal and not negative, or whose largest value is not positive and equal
    /// to the smallest: every level is 0.
    pub flat: [S::mask32s; G],
    /// Lanes in which rounding by the magic number was out of its range.
    pub wild: S::mask32s,
}

/// Searches `G` groups of lanes at once, so that one's additions fill the latency of the other's.
///
/// Rounding stays in floats: `(v + MAGIC)` clamped, less MAGIC. That equals the reference's integers as
/// long as `|v|` is below 2^22; since `v` grows with `x`, it is enough to look at the smallest and the
/// largest `x` of each lane, once for each candidate.
#[simd]
pub fn scale_and_min<S: Simd, const N: usize, const G: usize, const MAGNITUDES: bool>(
    simd: S,
    x: [&[S::f32s; N]; G],
    w: [&[S::f32s; N]; G],
    max_level: u8,
    candidates: Candidates,
) -> Found<S, G> {
    let splat = |value: f32| S::f32s::splat(simd, value);
    let (zero, top) = (splat(0.0), f32::from(max_level));
    let ceiling = splat(MAGIC + top);

    let mut lowest = x.map(|x| x[0]);
    let mut max = lowest;
    let mut sum_w = w.map(|w| w[0]);
    let mut sum_x = [zero; G];
    for g in 0..G {
        sum_x[g] = w[g][0] * x[g][0];
    }
    for i in 1..N {
        for g in 0..G {
            let (x, w) = (x[g][i], w[g][i]);
            lowest[g] = x.simd_lt(lowest[g]).select(x, lowest[g]);
            max[g] = x.simd_gt(max[g]).select(x, max[g]);
            sum_w[g] += w;
            sum_x[g] += w * x;
        }
    }

    let mut first_min = lowest;
    for min in &mut first_min {
        *min = min.simd_gt(zero).select(zero, *min);
    }
    let mut tame = S::mask32s::splat(simd, true);
    let (mut flat, mut min, mut scale, mut best_error) = ([tame; G], first_min, [zero; G], [zero; G]);
    for g in 0..G {
        flat[g] = max[g].simd_le(min[g]);
        let inv_scale = splat(top) / (max[g] - min[g]);
        scale[g] = splat(1.0) / inv_scale;
        tame &= flat[g] | in_range(simd, inv_scale, min[g], lowest[g], max[g]);
        for i in 0..N {
            let level = level_of(simd, inv_scale, min[g], x[g][i], ceiling);
            best_error[g] += w[g][i] * error_of::<S, MAGNITUDES>(simd, level, scale[g], min[g], x[g][i]);
        }
    }

    let mut trial = [[zero; N]; G];
    for step in 0..=candidates.n_steps {
        let span = splat(candidates.first + candidates.step * f32::from(step) + top);
        let (mut sum_l, mut sum_l2, mut sum_xl) = ([zero; G], [zero; G], [zero; G]);
        let mut inv_scale = [zero; G];
        for g in 0..G {
            inv_scale[g] = span / (max[g] - min[g]);
            tame &= flat[g] | in_range(simd, inv_scale[g], min[g], lowest[g], max[g]);
        }
        for i in 0..N {
            for g in 0..G {
                let x = x[g][i];
                let level = level_of(simd, inv_scale[g], min[g], x, ceiling);
                trial[g][i] = level;
                let wl = w[g][i] * level;
                sum_l[g] += wl;
                sum_l2[g] += wl * level;
                sum_xl[g] += wl * x;
            }
        }
        let (mut this_scale, mut this_min, mut solvable) = ([zero; G], [zero; G], flat);
        for g in 0..G {
            let determinant = sum_w[g] * sum_l2[g] - sum_l[g] * sum_l[g];
            solvable[g] = determinant.simd_gt(zero);
            this_scale[g] = (sum_w[g] * sum_xl[g] - sum_x[g] * sum_l[g]) / determinant;
            this_min[g] = (sum_l2[g] * sum_x[g] - sum_l[g] * sum_xl[g]) / determinant;
            let positive = this_min[g].simd_gt(zero);
            if positive.any_true() {
                this_scale[g] = positive.select(sum_xl[g] / sum_l2[g], this_scale[g]);
                this_min[g] = positive.select(zero, this_min[g]);
            }
        }
        let mut error = [zero; G];
        for i in 0..N {
            for g in 0..G {
                error[g] += w[g][i]
                    * error_of::<S, MAGNITUDES>(simd, trial[g][i], this_scale[g], this_min[g], x[g][i]);
            }
        }
        for g in 0..G {
            let better = error[g].simd_lt(best_error[g]) & solvable[g];
            best_error[g] = better.select(error[g], best_error[g]);
            scale[g] = better.select(this_scale[g], scale[g]);
            min[g] = better.select(this_min[g], min[g]);
        }
    }
    for g in 0..G {
        scale[g] = flat[g].select(zero, scale[g]);
        min[g] = -flat[g].select(first_min[g], min[g]);
    }
    Found { scale, min, flat, wild: !tame }
}

/// Whether the magic number rounds every value of the lane rightly. False for NaN.
#[simd]
fn in_range<S: Simd>(
    simd: S,
    inv_scale: S::f32s,
    min: S::f32s,
    lowest: S::f32s,
    highest: S::f32s,
) -> S::mask32s {
    let limit = S::f32s::splat(simd, 4_000_000.0);
    (inv_scale * (lowest - min)).abs().simd_lt(limit) & (inv_scale * (highest - min)).abs().simd_lt(limit)
}

/// The level of `x` as a float, clamped to 0 and to `ceiling` less the magic number.
#[simd]
fn level_of<S: Simd>(simd: S, inv_scale: S::f32s, min: S::f32s, x: S::f32s, ceiling: S::f32s) -> S::f32s {
    let magic = S::f32s::splat(simd, MAGIC);
    (inv_scale * (x - min) + magic).max(magic).min(ceiling) - magic
}

/// The error of one element before its weight.
#[simd]
fn error_of<S: Simd, const MAGNITUDES: bool>(
    _simd: S,
    level: S::f32s,
    scale: S::f32s,
    min: S::f32s,
    x: S::f32s,
) -> S::f32s {
    let miss = scale * level + min - x;
    if MAGNITUDES { miss.abs() } else { miss * miss }
}
