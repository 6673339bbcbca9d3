//! [`fit::scale_and_min`](crate::fit::scale_and_min), one (sub-)block per lane.
//!
//! Vectors are processed in pairs, so that one's additions fill the latency of the other's, and `P` pairs
//! take turns: the divisions of one pair overlap with the sums of another. Wide divisions take as long as 32
//! additions, so this hides them entirely.

use fearless_simd::{Simd, prelude::*};
use fearless_simd_macros::simd;

use super::{MAGIC, nearest_level};
use crate::fit::Candidates;

const PAIR: usize = 2;

/// Result of the search for one vector of (sub-)blocks.
#[derive(Clone, Copy)]
pub struct Found<S: Simd> {
    /// Scale; 0 if the values are flat.
    pub scale: S::f32s,
    /// The minimum, negated.
    pub min: S::f32s,
    /// The levels of the search are `(x - base) * inv_scale`, see [`searched_level`].
    pub inv_scale: S::f32s,
    /// See `inv_scale`.
    pub base: S::f32s,
}

impl<S: Simd> Found<S> {
    #[inline(always)]
    pub fn none(simd: S) -> Self {
        let zero = S::f32s::splat(simd, 0.0);
        Found { scale: zero, min: zero, inv_scale: zero, base: zero }
    }
}

/// The level that the search gave to an element.
#[simd]
pub fn searched_level<S: Simd>(simd: S, found: &Found<S>, x: S::f32s, max_level: u32) -> S::u32s {
    nearest_level(simd, found.inv_scale * (x - found.base), max_level)
}

/// A pair of vectors during its search.
struct Search<'a, S: Simd, const N: usize> {
    x: [&'a [S::f32s; N]; PAIR],
    w: [&'a [S::f32s; N]; PAIR],
    lowest: [S::f32s; PAIR],
    highest: [S::f32s; PAIR],
    flat: [S::mask32s; PAIR],
    sum_w: [S::f32s; PAIR],
    sum_x: [S::f32s; PAIR],
    best: [Found<S>; PAIR],
    best_error: [S::f32s; PAIR],
    tame: [S::mask32s; PAIR],
    inv_scale: [S::f32s; PAIR],
    sum_l: [S::f32s; PAIR],
    sum_l2: [S::f32s; PAIR],
    sum_xl: [S::f32s; PAIR],
    trial: [[S::f32s; PAIR]; N],
}

/// Searches `V` vectors of (sub-)blocks and returns the wild lanes.
///
/// Rounding stays in floats: `(v + MAGIC)` clamped, less MAGIC. That equals the reference's integers as long
/// as `|v|` is below 2^22; since `v` grows with `x`, checking the smallest and the largest `x` of each lane
/// is enough, once per candidate. If these two need no clamping, no value does.
#[simd]
pub fn scale_and_min<S: Simd, const N: usize, const P: usize, const MAGNITUDES: bool>(
    simd: S,
    x: [[&[S::f32s; N]; PAIR]; P],
    w: [[&[S::f32s; N]; PAIR]; P],
    max_level: u8,
    candidates: Candidates,
    found: &mut [[Found<S>; PAIR]; P],
) -> S::mask32s {
    let top = f32::from(max_level);
    // The first try, with the range on exactly `max_level` steps, is the one to beat.
    let mut searches: [Search<'_, S, N>; P] = std::array::from_fn(|p| start(simd, x[p], w[p]));
    for search in &mut searches {
        sum_levels(simd, search, top, top);
        first_judgement::<S, N, MAGNITUDES>(simd, search);
    }
    for step in 0..=candidates.n_steps {
        // In two loops, so that the divisions of one pair overlap with the sums of the other.
        let span = candidates.first + candidates.step * f32::from(step) + top;
        for search in &mut searches {
            sum_levels(simd, search, span, top);
        }
        for search in &mut searches {
            judge::<S, N, MAGNITUDES>(simd, search);
        }
    }
    let zero = S::f32s::splat(simd, 0.0);
    let mut tame = S::mask32s::splat(simd, true);
    for (search, found) in searches.iter().zip(found) {
        for g in 0..PAIR {
            let (flat, best) = (search.flat[g], search.best[g]);
            // Flat values: no step, and their value as the minimum.
            let no_lower = search.lowest[g].simd_gt(zero).select(zero, search.lowest[g]);
            found[g].scale = flat.select(zero, best.scale);
            found[g].min = -flat.select(no_lower, best.min);
            found[g].inv_scale = flat.select(zero, best.inv_scale);
            found[g].base = flat.select(zero, best.base);
            tame &= search.tame[g];
        }
    }
    !tame
}

/// The range of the values and the sums that do not depend on the candidate.
#[simd]
fn start<'a, S: Simd, const N: usize>(
    simd: S,
    x: [&'a [S::f32s; N]; PAIR],
    w: [&'a [S::f32s; N]; PAIR],
) -> Search<'a, S, N> {
    let zero = S::f32s::splat(simd, 0.0);
    let none = Found::none(simd);
    let mut lowest = [x[0][0], x[1][0]];
    let mut highest = lowest;
    // `W = sum w` and `X = sum w x`, starting with the first element instead of zero, like in the reference.
    let mut sum_w = [w[0][0], w[1][0]];
    let mut sum_x = [w[0][0] * x[0][0], w[1][0] * x[1][0]];
    for i in 1..N {
        for g in 0..PAIR {
            let (x, w) = (x[g][i], w[g][i]);
            lowest[g] = x.simd_lt(lowest[g]).select(x, lowest[g]);
            highest[g] = x.simd_gt(highest[g]).select(x, highest[g]);
            sum_w[g] += w;
            sum_x[g] += w * x;
        }
    }
    let mut best = [none; PAIR];
    let (mut flat, mut tame) = ([S::mask32s::splat(simd, true); PAIR], [S::mask32s::splat(simd, true); PAIR]);
    for g in 0..PAIR {
        best[g].min = lowest[g].simd_gt(zero).select(zero, lowest[g]);
        flat[g] = highest[g].simd_le(best[g].min);
        // A NaN anywhere shows in the sum.
        tame[g] = sum_x[g].simd_eq(sum_x[g]);
    }
    Search {
        x,
        w,
        lowest,
        highest,
        flat,
        sum_w,
        sum_x,
        best,
        best_error: [zero; PAIR],
        tame,
        inv_scale: [zero; PAIR],
        sum_l: [zero; PAIR],
        sum_l2: [zero; PAIR],
        sum_xl: [zero; PAIR],
        trial: [[zero; PAIR]; N],
    }
}

/// The levels of a candidate and the sums over them.
#[simd]
fn sum_levels<S: Simd, const N: usize>(simd: S, search: &mut Search<'_, S, N>, span: f32, top: f32) {
    let splat = |value: f32| S::f32s::splat(simd, value);
    let (limit, magic, ceiling) = (splat(4_000_000.0), splat(MAGIC), splat(MAGIC + top));
    let mut inside = S::mask32s::splat(simd, true);
    for g in 0..PAIR {
        let min = search.best[g].min;
        // Below 2^22 = 4194304 in magnitude the magic number rounds like the reference; 4000000 is well
        // within.
        let inv_scale = splat(span) / (search.highest[g] - min);
        let low = inv_scale * (search.lowest[g] - min);
        let high = inv_scale * (search.highest[g] - min);
        search.tame[g] &= search.flat[g] | (low.abs().simd_lt(limit) & high.abs().simd_lt(limit));
        search.inv_scale[g] = inv_scale;
        // If both ends need no clamping, values in between do not either.
        for end in [low + magic, high + magic] {
            inside &= end.simd_ge(magic) & end.simd_le(ceiling);
        }
    }
    if inside.all_true() {
        sum_levels_of::<S, N, false>(simd, search, ceiling);
    } else {
        sum_levels_of::<S, N, true>(simd, search, ceiling);
    }
}

#[simd]
fn sum_levels_of<S: Simd, const N: usize, const CLAMP: bool>(
    simd: S,
    search: &mut Search<'_, S, N>,
    ceiling: S::f32s,
) {
    let zero = S::f32s::splat(simd, 0.0);
    let magic = S::f32s::splat(simd, MAGIC);
    let inv_scale = search.inv_scale;
    let min = [search.best[0].min, search.best[1].min];
    let (mut sum_l, mut sum_l2, mut sum_xl) = ([zero; PAIR], [zero; PAIR], [zero; PAIR]);
    for i in 0..N {
        for g in 0..PAIR {
            let x = search.x[g][i];
            // `q = clamp(round((x - min) * inv_scale))`; `L += w q`, `Q += w q^2`, `C += w q x`.
            let mut level = inv_scale[g] * (x - min[g]) + magic;
            if CLAMP {
                level = level.max(magic).min(ceiling);
            }
            let level = level - magic;
            search.trial[i][g] = level;
            let wl = search.w[g][i] * level;
            sum_l[g] += wl;
            sum_l2[g] += wl * level;
            sum_xl[g] += wl * x;
        }
    }
    search.sum_l = sum_l;
    search.sum_l2 = sum_l2;
    search.sum_xl = sum_xl;
}

/// The error of the first try, whose scale is not fitted.
#[simd]
fn first_judgement<S: Simd, const N: usize, const MAGNITUDES: bool>(simd: S, search: &mut Search<'_, S, N>) {
    let one = S::f32s::splat(simd, 1.0);
    for g in 0..PAIR {
        let best = &mut search.best[g];
        best.inv_scale = search.inv_scale[g];
        best.base = best.min;
        best.scale = one / search.inv_scale[g];
    }
    let scale = [search.best[0].scale, search.best[1].scale];
    let min = [search.best[0].min, search.best[1].min];
    search.best_error = errors::<S, N, MAGNITUDES>(simd, search, scale, min);
}

/// Fits scale and minimum to the levels of a candidate and keeps them if their error is less.
#[simd]
fn judge<S: Simd, const N: usize, const MAGNITUDES: bool>(simd: S, search: &mut Search<'_, S, N>) {
    let zero = S::f32s::splat(simd, 0.0);
    let (mut scale, mut min, mut solvable) = ([zero; PAIR], [zero; PAIR], search.flat);
    for g in 0..PAIR {
        let (sum_w, sum_x) = (search.sum_w[g], search.sum_x[g]);
        let (sum_l, sum_l2, sum_xl) = (search.sum_l[g], search.sum_l2[g], search.sum_xl[g]);
        // The `d` and `m` that minimize `sum w (d q + m - x)^2` for these levels, derived in the scalar code.
        let determinant = sum_w * sum_l2 - sum_l * sum_l;
        solvable[g] = determinant.simd_gt(zero);
        scale[g] = (sum_w * sum_xl - sum_x * sum_l) / determinant;
        min[g] = (sum_l2 * sum_x - sum_l * sum_xl) / determinant;
        // Such a minimum cannot be stored; with `m = 0` the best scale is `C / Q`. Usually no lane has one.
        let positive = min[g].simd_gt(zero);
        if positive.any_true() {
            scale[g] = positive.select(sum_xl / sum_l2, scale[g]);
            min[g] = positive.select(zero, min[g]);
        }
    }
    let error = errors::<S, N, MAGNITUDES>(simd, search, scale, min);
    for g in 0..PAIR {
        // The levels of a candidate count from the previous minimum, the next candidate from the new one.
        let better = error[g].simd_lt(search.best_error[g]) & solvable[g];
        let best = &mut search.best[g];
        search.best_error[g] = better.select(error[g], search.best_error[g]);
        best.inv_scale = better.select(search.inv_scale[g], best.inv_scale);
        best.base = better.select(best.min, best.base);
        best.scale = better.select(scale[g], best.scale);
        best.min = better.select(min[g], best.min);
    }
}

/// Weighted sums of squares, or of magnitudes, of the errors.
#[simd]
fn errors<S: Simd, const N: usize, const MAGNITUDES: bool>(
    simd: S,
    search: &Search<'_, S, N>,
    scale: [S::f32s; PAIR],
    min: [S::f32s; PAIR],
) -> [S::f32s; PAIR] {
    let mut errors = [S::f32s::splat(simd, 0.0); PAIR];
    for i in 0..N {
        for g in 0..PAIR {
            let miss = scale[g] * search.trial[i][g] + min[g] - search.x[g][i];
            let weighed = if MAGNITUDES { miss.abs() } else { miss * miss };
            errors[g] += search.w[g][i] * weighed;
        }
    }
    errors
}
