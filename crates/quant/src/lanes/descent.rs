//! [`fit::signed_by_descent`](crate::fit::signed_by_descent), a sub-block a lane.
//!
//! Levels move in few sub-blocks. Where the value of largest magnitude is positive, all the shares of the sum
//! of `weight * x * level` are negative and no level ever moves; of the others, the first sweep leaves two in
//! three as they are, which can be told without sweeping. So the sub-blocks that may change are collected from
//! the whole unit into dense vectors of their own. Each step of a sweep waits for the one before, so several
//! vectors go side by side, without branches.

use fearless_simd::{Simd, prelude::*};
use fearless_simd_macros::simd;

use super::{
    MAGIC, MAX_LANES, nearest_int,
    signed::{Found, ends},
    transpose,
};
use crate::{block::array_at_mut, fit::SMALLEST_GROUP};

/// Vectors that go side by side.
const SIDES: usize = 4;
/// Sub-blocks of a block.
const SUBS: usize = 16;
/// Elements in a sub-block.
const SUB_ELEMS: usize = 16;

/// Fits all sub-blocks of the unit `x` whose first block is block `first` of `values`. Gives the wild lanes,
/// and for each sub-block the lanes whose levels are no longer those of `inv_scale`.
#[simd]
pub fn signed_by_descent<S: Simd>(
    simd: S,
    values: &[f32],
    first: usize,
    x: &[S::f32s; SUBS * SUB_ELEMS],
    half: u8,
    found: &mut [Found<S>; SUBS],
) -> (S::mask32s, [u64; SUBS]) {
    let lanes = S::f32s::LEN;
    let subs = values.as_chunks::<SUB_ELEMS>().0;
    let in_unit = (subs.len() / SUBS - first).min(lanes);
    let mut wild = S::mask32s::splat(simd, false);
    // Numbers of sub-blocks in the unit, lane by lane within one sub-block after another.
    let mut open = [0u16; SUBS * MAX_LANES];
    let mut n_open = 0;
    for (sub, (x, found)) in x.as_chunks::<SUB_ELEMS>().0.iter().zip(&mut *found).enumerate() {
        let (this_wild, may_move) = start(simd, x, half, found);
        wild |= this_wild;
        let mut bits = may_move.to_bitmask() & ((1 << in_unit) - 1);
        while bits != 0 {
            open[n_open] = (sub * MAX_LANES) as u16 + bits.trailing_zeros() as u16;
            n_open += 1;
            bits &= bits - 1;
        }
    }
    let mut moved = [0; SUBS];
    let zero = S::f32s::splat(simd, 0.0);
    for open in open[..n_open].chunks(SIDES * lanes) {
        let n_sides = open.len().div_ceil(lanes);
        let mut dense = [Dense::<S>::none(simd); SIDES];
        for (dense, open) in dense.iter_mut().zip(open.chunks(lanes)) {
            let mut chosen = [first * SUBS; MAX_LANES];
            let mut inv_scale = zero;
            for (lane, number) in open.iter().enumerate() {
                let (sub, from) = (usize::from(*number) / MAX_LANES, usize::from(*number) % MAX_LANES);
                chosen[lane] = (first + from) * SUBS + sub;
                inv_scale.as_mut_slice()[lane] = found[sub].inv_scale.as_slice()[from];
            }
            transpose(simd, subs, chosen, &mut dense.x);
            dense.round(simd, inv_scale, half);
        }
        match n_sides {
            1 => descend::<S, 1>(simd, half, array_at_mut(&mut dense, 0)),
            2 => descend::<S, 2>(simd, half, array_at_mut(&mut dense, 0)),
            3 => descend::<S, 3>(simd, half, array_at_mut(&mut dense, 0)),
            _ => descend::<S, SIDES>(simd, half, &mut dense),
        }
        for (dense, open) in dense.iter().zip(open.chunks(lanes)) {
            let scale = dense.sum_l2.simd_gt(zero).select(dense.sum_lx / dense.sum_l2, zero);
            let bits = dense.moved.to_bitmask();
            for (lane, number) in open.iter().enumerate() {
                let (sub, to) = (usize::from(*number) / MAX_LANES, usize::from(*number) % MAX_LANES);
                found[sub].scale.as_mut_slice()[to] = scale.as_slice()[lane];
                moved[sub] |= (bits >> lane & 1) << to;
            }
        }
    }
    (wild, moved)
}

/// Rounds to the scale that the largest value sets. Gives the wild lanes, and those whose levels may move.
#[simd]
fn start<S: Simd>(
    simd: S,
    x: &[S::f32s; SUB_ELEMS],
    half: u8,
    found: &mut Found<S>,
) -> (S::mask32s, S::mask32s) {
    let splat = |value: f32| S::f32s::splat(simd, value);
    let zero = splat(0.0);
    let (max, _) = ends(simd, x);
    found.empty = max.abs().simd_lt(splat(SMALLEST_GROUP));
    found.inv_scale = found.empty.select(zero, splat(-f32::from(half)) / max);
    let (mut sum_lx, mut sum_l2) = (zero, zero);
    let mut levels = [zero; SUB_ELEMS];
    for i in 0..SUB_ELEMS {
        levels[i] = add_rounded(simd, x[i], found.inv_scale, half, &mut sum_lx, &mut sum_l2);
    }
    let usable = sum_l2.simd_gt(zero) & !found.empty;
    found.scale = usable.select(sum_lx / sum_l2, zero);
    // Infinity or NaN anywhere shows in the sum.
    let wild = !found.empty & !sum_lx.abs().simd_lt(splat(f32::INFINITY));
    let open = max.simd_lt(zero) & !found.empty & !wild;
    (wild, open & may_move(simd, x, &levels, half, sum_lx, sum_l2))
}

/// Whether the first sweep may move any level; false only where it surely does not.
///
/// With `lx` and `l2` the sums without the element, its best level `x * l2 / lx` rounds to the one it has if
/// `|x * l2 - level * lx| < lx / 2`. The sums with the element give the same difference, because its own share
/// cancels out. All rounding errors, the scalar code's too, are below a 10000th of the sum plus a 1000th of
/// `lx`, unless the sum is subnormal or nearly so.
#[simd]
fn may_move<S: Simd>(
    simd: S,
    x: &[S::f32s; SUB_ELEMS],
    levels: &[S::f32s; SUB_ELEMS],
    half: u8,
    sum_lx: S::f32s,
    sum_l2: S::f32s,
) -> S::mask32s {
    let splat = |value: f32| S::f32s::splat(simd, value);
    let (lowest, highest) = (splat(-f32::from(half)), splat(f32::from(half) - 1.0));
    let near_half = splat(0.499);
    let nearly_all = sum_lx * splat(0.9999);
    let mut moves = sum_lx.simd_lt(splat(1e-30));
    for (x, level) in x.iter().zip(levels) {
        let (x, level) = (*x, *level);
        let miss = x * sum_l2 - level * sum_lx;
        let bound = (nearly_all - x * x * x * level) * near_half;
        moves |= miss.simd_gt(bound) & level.simd_lt(highest);
        moves |= (-miss).simd_gt(bound) & level.simd_gt(lowest);
    }
    moves
}

/// The level of an element; adds its shares to the sums.
#[simd]
fn add_rounded<S: Simd>(
    simd: S,
    x: S::f32s,
    inv_scale: S::f32s,
    half: u8,
    sum_lx: &mut S::f32s,
    sum_l2: &mut S::f32s,
) -> S::f32s {
    let (magic, half) = (S::f32s::splat(simd, MAGIC), f32::from(half));
    let floor = S::f32s::splat(simd, MAGIC - half);
    let ceiling = S::f32s::splat(simd, MAGIC + half - 1.0);
    let level = (inv_scale * x + magic).max(floor).min(ceiling) - magic;
    let w = x * x;
    *sum_lx += w * x * level;
    *sum_l2 += w * level * level;
    level
}

/// A vector of collected sub-blocks.
struct Dense<S: Simd> {
    x: [S::f32s; SUB_ELEMS],
    /// As floats, from `-half` on.
    levels: [S::f32s; SUB_ELEMS],
    sum_lx: S::f32s,
    sum_l2: S::f32s,
    /// Lanes in which any sweep has moved a level.
    moved: S::mask32s,
}

impl<S: Simd> Copy for Dense<S> {}

impl<S: Simd> Clone for Dense<S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S: Simd> Dense<S> {
    #[inline(always)]
    fn none(simd: S) -> Self {
        let zero = S::f32s::splat(simd, 0.0);
        let never = S::mask32s::splat(simd, false);
        let zeros = [zero; SUB_ELEMS];
        Dense { x: zeros, levels: zeros, sum_lx: zero, sum_l2: zero, moved: never }
    }

    #[inline(always)]
    fn round(&mut self, simd: S, inv_scale: S::f32s, half: u8) {
        for i in 0..SUB_ELEMS {
            self.levels[i] =
                add_rounded(simd, self.x[i], inv_scale, half, &mut self.sum_lx, &mut self.sum_l2);
        }
    }
}

/// Sweeps until no level moves any more, at most five times. A lane that has come to rest stays as it is,
/// because its next sweep would be the one before.
#[simd]
fn descend<S: Simd, const N: usize>(simd: S, half: u8, dense: &mut [Dense<S>; N]) {
    for _ in 0..5 {
        let mut sums = [(dense[0].sum_lx, dense[0].sum_l2, S::mask32s::splat(simd, false)); N];
        for g in 0..N {
            (sums[g].0, sums[g].1) = (dense[g].sum_lx, dense[g].sum_l2);
        }
        for i in 0..SUB_ELEMS {
            for g in 0..N {
                let dense = &mut dense[g];
                dense.levels[i] = step(simd, dense.x[i], dense.levels[i], half, &mut sums[g]);
            }
        }
        let mut active = S::mask32s::splat(simd, false);
        for g in 0..N {
            (dense[g].sum_lx, dense[g].sum_l2) = (sums[g].0, sums[g].1);
            dense[g].moved |= sums[g].2;
            active |= sums[g].2;
        }
        if !active.any_true() {
            break;
        }
    }
}

/// Moves the level of an element where that helps; equal to the scalar code for every input. The sums are
/// those of `weight * x * level` and of `weight * level^2`, and the lanes that have moved.
#[simd]
fn step<S: Simd>(
    simd: S,
    x: S::f32s,
    level: S::f32s,
    half: u8,
    (sum_lx, sum_l2, moved): &mut (S::f32s, S::f32s, S::mask32s),
) -> S::f32s {
    let zero = S::f32s::splat(simd, 0.0);
    let half = i32::from(half);
    let (low, high) = (S::i32s::splat(simd, -half), S::i32s::splat(simd, half - 1));
    let w = x * x;
    let weighted = w * x;
    let mut lx = *sum_lx - weighted * level;
    let mut l2 = *sum_l2 - w * level * level;
    let new = nearest_int(simd, x * l2 / lx).bitcast::<S::i32s>().max(low).min(high);
    let new: S::f32s = new.to_float();
    // Conditions go by blends and not by masks joined together, which travel through scalar registers.
    let new = lx.simd_gt(zero).select(new, level);
    let none = S::f32s::splat(simd, f32::NEG_INFINITY);
    let base = new.simd_eq(level).select(none, *sum_l2);
    lx += weighted * new;
    l2 += w * new * new;
    let quality = l2.simd_gt(zero).select(lx * lx * base, none);
    let better = quality.simd_gt(*sum_lx * *sum_lx * l2);
    *sum_lx = better.select(lx, *sum_lx);
    *sum_l2 = better.select(l2, *sum_l2);
    *moved |= better;
    better.select(new, level)
}
