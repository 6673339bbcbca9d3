//! [`fit::signed_by_descent`](crate::fit::signed_by_descent), a sub-block a lane.
//!
//! The first sweep over the elements changes a level in one lane of fifty, the second in one of two hundred,
//! the later ones hardly ever. So the first is done without branches, several vectors side by side because each
//! step waits for the one before; the others first ask whether any lane could change at all.

use fearless_simd::{Simd, prelude::*};
use fearless_simd_macros::simd;

use super::{MAGIC, nearest_int, signed::ends};
use crate::fit::SMALLEST_GROUP;

/// Vectors that go side by side.
const SIDES: usize = 4;

/// What the search found for one vector of sub-blocks.
pub struct Found<S: Simd, const N: usize> {
    /// The scale; 0 where the values are as good as zero.
    pub scale: S::f32s,
    /// The levels as floats, from `-half` on.
    levels: [S::f32s; N],
    /// Where the values are as good as zero and every level is stored as 0.
    empty: S::mask32s,
    sum_lx: S::f32s,
    sum_l2: S::f32s,
    /// Lanes in which the last sweep changed a level.
    active: S::mask32s,
}

impl<S: Simd, const N: usize> Copy for Found<S, N> {}

impl<S: Simd, const N: usize> Clone for Found<S, N> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S: Simd, const N: usize> Found<S, N> {
    /// Nothing found yet.
    #[inline(always)]
    pub fn none(simd: S) -> Self {
        let zero = S::f32s::splat(simd, 0.0);
        let never = S::mask32s::splat(simd, false);
        Found { scale: zero, levels: [zero; N], empty: never, sum_lx: zero, sum_l2: zero, active: never }
    }

    /// The level that the search gave to an element, as stored: plus `half`.
    #[inline(always)]
    pub fn searched_level(&self, simd: S, i: usize, half: u8) -> S::u32s {
        let base = S::f32s::splat(simd, MAGIC - f32::from(half)).bitcast::<S::u32s>();
        let level = (self.levels[i] + S::f32s::splat(simd, MAGIC)).bitcast::<S::u32s>() - base;
        self.empty.select(S::u32s::splat(simd, 0), level)
    }
}

/// Fits vectors of sub-blocks, a multiple of four; gives the wild lanes.
#[simd]
pub fn signed_by_descent<S: Simd, const N: usize>(
    simd: S,
    x: &[[S::f32s; N]],
    half: u8,
    found: &mut [Found<S, N>],
) -> S::mask32s {
    let mut wild = S::mask32s::splat(simd, false);
    for (x, found) in x.as_chunks::<SIDES>().0.iter().zip(found.as_chunks_mut::<SIDES>().0) {
        wild |= start(simd, x, half, found);
        first_sweep(simd, x, half, found);
        for (x, found) in x.iter().zip(found) {
            later_sweeps(simd, x, half, found);
            let zero = S::f32s::splat(simd, 0.0);
            let usable = found.sum_l2.simd_gt(zero) & !found.empty;
            found.scale = usable.select(found.sum_lx / found.sum_l2, zero);
        }
    }
    wild
}

/// Rounds to the scale that the largest value sets.
#[simd]
fn start<S: Simd, const N: usize>(
    simd: S,
    x: &[[S::f32s; N]; SIDES],
    half: u8,
    found: &mut [Found<S, N>; SIDES],
) -> S::mask32s {
    let splat = |value: f32| S::f32s::splat(simd, value);
    let half = f32::from(half);
    let (zero, magic) = (splat(0.0), splat(MAGIC));
    let (floor, ceiling) = (splat(MAGIC - half), splat(MAGIC + half - 1.0));
    let mut wild = S::mask32s::splat(simd, false);
    for (x, found) in x.iter().zip(found) {
        let (max, _) = ends(simd, x);
        found.empty = max.abs().simd_lt(splat(SMALLEST_GROUP));
        let inv_scale = found.empty.select(zero, splat(-half) / max);
        let (mut sum_lx, mut sum_l2) = (zero, zero);
        for i in 0..N {
            let level = (inv_scale * x[i] + magic).max(floor).min(ceiling) - magic;
            found.levels[i] = level;
            let w = x[i] * x[i];
            sum_lx += w * x[i] * level;
            sum_l2 += w * level * level;
        }
        (found.sum_lx, found.sum_l2) = (sum_lx, sum_l2);
        // Infinity or NaN anywhere shows in the sum. A small one is too coarse for the test of the later sweeps.
        let size = sum_lx.abs();
        wild |= !found.empty & !(size.simd_gt(splat(1e-30)) & size.simd_lt(splat(f32::INFINITY)));
    }
    wild
}

#[simd]
fn first_sweep<S: Simd, const N: usize>(
    simd: S,
    x: &[[S::f32s; N]; SIDES],
    half: u8,
    found: &mut [Found<S, N>; SIDES],
) {
    let mut state = [State::<S>::none(simd); SIDES];
    for g in 0..SIDES {
        state[g] = State { sum_lx: found[g].sum_lx, sum_l2: found[g].sum_l2, active: found[g].active };
    }
    for i in 0..N {
        for g in 0..SIDES {
            found[g].levels[i] = step(simd, x[g][i], found[g].levels[i], half, &mut state[g]);
        }
    }
    for g in 0..SIDES {
        found[g].sum_lx = state[g].sum_lx;
        found[g].sum_l2 = state[g].sum_l2;
        found[g].active = state[g].active;
    }
}

/// The sums of a vector in the middle of a sweep, and where this sweep changed a level.
struct State<S: Simd> {
    sum_lx: S::f32s,
    sum_l2: S::f32s,
    active: S::mask32s,
}

impl<S: Simd> Copy for State<S> {}

impl<S: Simd> Clone for State<S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S: Simd> State<S> {
    #[inline(always)]
    fn none(simd: S) -> Self {
        let zero = S::f32s::splat(simd, 0.0);
        State { sum_lx: zero, sum_l2: zero, active: S::mask32s::splat(simd, false) }
    }
}

/// Moves the level of an element where that helps; equal to the scalar code for every input.
#[simd]
fn step<S: Simd>(simd: S, x: S::f32s, level: S::f32s, half: u8, state: &mut State<S>) -> S::f32s {
    let zero = S::f32s::splat(simd, 0.0);
    let half = i32::from(half);
    let (low, high) = (S::i32s::splat(simd, -half), S::i32s::splat(simd, half - 1));
    let w = x * x;
    let weighted = w * x;
    let mut lx = state.sum_lx - weighted * level;
    let mut l2 = state.sum_l2 - w * level * level;
    let new = nearest_int(simd, x * l2 / lx).bitcast::<S::i32s>().max(low).min(high);
    let new: S::f32s = new.to_float();
    let mut better = lx.simd_gt(zero) & !new.simd_eq(level);
    lx += weighted * new;
    l2 += w * new * new;
    better &= l2.simd_gt(zero) & (lx * lx * state.sum_l2).simd_gt(state.sum_lx * state.sum_lx * l2);
    state.sum_lx = better.select(lx, state.sum_lx);
    state.sum_l2 = better.select(l2, state.sum_l2);
    state.active |= better;
    better.select(new, level)
}

/// Sweeps until no lane changes any more, at most four times.
///
/// With `lx` and `l2` the sums without the element, its best level `x * l2 / lx` rounds to the one it has if
/// `|x * l2 - level * lx| < lx / 2`; the sums with the element give the same difference, because its own share
/// cancels out. Beyond the lowest and the highest level the bound is wide, since those are clamped to. All
/// rounding errors, the scalar code's too, are below a 10000th of the sum plus a 1000th of `lx`.
#[simd]
fn later_sweeps<S: Simd, const N: usize>(simd: S, x: &[S::f32s; N], half: u8, found: &mut Found<S, N>) {
    if !found.active.any_true() {
        return;
    }
    let splat = |value: f32| S::f32s::splat(simd, value);
    let zero = splat(0.0);
    let bounds_of = |level: S::f32s| {
        let above = level.simd_ge(splat(f32::from(half) - 1.0)).select(splat(1000.0), splat(0.499));
        let below = level.simd_le(splat(-f32::from(half))).select(splat(-1000.0), splat(-0.499));
        (above, below)
    };
    let (mut above, mut below, mut share) = ([zero; N], [zero; N], [zero; N]);
    for i in 0..N {
        let level = found.levels[i];
        (above[i], below[i]) = bounds_of(level);
        share[i] = x[i] * x[i] * x[i] * level;
    }
    let mut state: State<S> = State { sum_lx: found.sum_lx, sum_l2: found.sum_l2, active: found.active };
    for _ in 1..5 {
        let unsettled: S::mask32s = state.active;
        if !unsettled.any_true() {
            break;
        }
        state.active = S::mask32s::splat(simd, false);
        for i in 0..N {
            let level = found.levels[i];
            let miss = x[i] * state.sum_l2 - level * state.sum_lx;
            let lx = state.sum_lx * splat(0.9999) - share[i];
            let settled = miss.simd_lt(above[i] * lx) & miss.simd_gt(below[i] * lx);
            if (unsettled & !settled).any_true() {
                let new = step(simd, x[i], level, half, &mut state);
                found.levels[i] = new;
                (above[i], below[i]) = bounds_of(new);
                share[i] = x[i] * x[i] * x[i] * new;
            }
        }
    }
    found.sum_lx = state.sum_lx;
    found.sum_l2 = state.sum_l2;
}
