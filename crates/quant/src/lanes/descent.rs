//! [`fit::signed_by_descent`](crate::fit::signed_by_descent), one sub-block per lane, then one element per
//! lane.
//!
//! Few levels move, in few sub-blocks. If the value of largest magnitude is positive, all terms of the sum of
//! `weight * x * level` are negative and no level ever moves; in the others, the first sweep leaves three in
//! five unchanged. Each step of a sweep would wait about 70 cycles for the previous one; but for all 16
//! elements at once, the two sums determine which a step may move, and the sums change only when a level
//! moves. So sweeps are not executed one by one: after each step all elements of the sub-block are tested,
//! one per lane, and the next step is that of the first element in sweep order that fails the test. Steps
//! themselves are made for many sub-blocks at once, one per lane.

use std::ops::Range;

use fearless_simd::{Simd, prelude::*};
use fearless_simd_macros::simd;

use super::{
    MAGIC, MAX_LANES, nearest_int,
    signed::{Found, ends},
};
use crate::fit::SMALLEST_GROUP;

const SUBS: usize = 16;
const SUB_ELEMS: usize = 16;
/// Number of sub-blocks in a unit, numbered lane by lane within one sub-block after another.
const NUMBERS: usize = SUBS * MAX_LANES;
/// The sub-blocks whose lanes fill the bits of a word.
const GROUP: usize = 64 / MAX_LANES;
/// Steps of all sweeps over a sub-block but the last.
const REPEATED_STEPS: u32 = 4 * SUB_ELEMS as u32;

/// State of the sub-blocks of a unit.
pub struct Scratch {
    /// By number, like the sums.
    inv_scale: [f32; NUMBERS],
    /// Sums of `weight * x * level`.
    sum_lx: [f32; NUMBERS],
    /// Sums of `weight * level^2`.
    sum_l2: [f32; NUMBERS],
    open: [Open; NUMBERS],
    /// One row for each sub-block that is or was open, up to the maximum of any unit: filling the rows of all
    /// numbers would take longer than fitting a unit.
    rows: Vec<Row>,
}

impl Scratch {
    pub fn new() -> Scratch {
        let none = [0.0; NUMBERS];
        Scratch { inv_scale: none, sum_lx: none, sum_l2: none, open: [Open(0); NUMBERS], rows: Vec::new() }
    }
}

struct Row {
    x: [f32; SUB_ELEMS],
    /// [`Test::SHARE`] of `x^3`.
    cubes: [f32; SUB_ELEMS],
    /// As floats, from `-half` on.
    levels: [f32; SUB_ELEMS],
}

impl Row {
    const EMPTY: Row = Row { x: [0.0; SUB_ELEMS], cubes: [0.0; SUB_ELEMS], levels: [0.0; SUB_ELEMS] };
}

/// A sub-block whose levels may move, and its next step. Bytes from the lowest on: its number; its row; the
/// step, counted over all sweeps; unused; and two with a bit for each element whose step changed no level
/// since the last change, because it would do so again.
#[derive(Clone, Copy)]
struct Open(u64);

impl Open {
    #[inline(always)]
    fn number(self) -> usize {
        (self.0 & 0xff) as usize
    }

    #[inline(always)]
    fn row(self) -> usize {
        (self.0 >> 8 & 0xff) as usize
    }

    #[inline(always)]
    fn elem(self) -> usize {
        (self.0 >> 16) as usize % SUB_ELEMS
    }

    /// Advances to the next step of an element that `may_move`; false after the last one.
    #[inline(always)]
    fn after(self, moved: bool, may_move: u32) -> (Open, bool) {
        let (names, step) = (self.0 & 0xffff, (self.0 >> 16) as u32 & 0xff);
        let settled = if moved { 0 } else { (self.0 >> 32) as u32 | 1 << self.elem() };
        let may_move = may_move & !settled;
        let later = may_move & (!1 << self.elem());
        // Elements that may move come again in the next sweep, unless this is the last of the five.
        let again = if step < REPEATED_STEPS { may_move << SUB_ELEMS } else { 0 };
        let ahead = later | again;
        let step = step / SUB_ELEMS as u32 * SUB_ELEMS as u32 + ahead.trailing_zeros();
        (Open(names | u64::from(step) << 16 | u64::from(settled) << 32), ahead != 0)
    }
}

/// Fits all sub-blocks of the unit `x` whose first block is block `first` of `values`. Returns the wild
/// lanes, and for each sub-block the lanes whose levels may differ from those of `inv_scale`.
#[simd]
pub fn signed_by_descent<S: Simd>(
    simd: S,
    scratch: &mut Scratch,
    values: &[f32],
    first: usize,
    x: &[S::f32s; SUBS * SUB_ELEMS],
    half: u8,
    found: &mut [Found<S>; SUBS],
) -> (S::mask32s, [u64; SUBS]) {
    let lanes = S::f32s::LEN;
    let zero = S::f32s::splat(simd, 0.0);
    let blocks = values.as_chunks::<SUB_ELEMS>().0.as_chunks::<SUBS>().0;
    let blocks = &blocks[first..blocks.len().min(first + lanes)];
    let mut wild = S::mask32s::splat(simd, false);
    // All sub-blocks, one per lane: round, sum up, and find those in which any level may move.
    let mut may_move = [0; SUBS];
    let mut shares = [(zero, zero); SUB_ELEMS];
    for (sub, x) in x.as_chunks::<SUB_ELEMS>().0.iter().enumerate() {
        let (this_wild, moves) = start(simd, x, &mut shares, half, &mut found[sub], sub * MAX_LANES, scratch);
        wild |= this_wild;
        may_move[sub] = moves.to_bitmask() & ((1 << blocks.len()) - 1);
    }
    // Their rows, with all 16 elements together, which are tested at once.
    let (mut n_rows, mut n_open) = (0, 0);
    for (group, may_move) in may_move.as_chunks::<GROUP>().0.iter().enumerate() {
        // The lanes of four sub-blocks in one word: a zero skips all.
        let mut bits = may_move.iter().rev().fold(0, |bits, lanes| bits << MAX_LANES | lanes);
        while bits != 0 {
            let number = GROUP * MAX_LANES * group + bits.trailing_zeros() as usize;
            bits &= bits - 1;
            let x = &blocks[number % MAX_LANES][number / MAX_LANES];
            if n_rows == scratch.rows.len() {
                scratch.rows.push(Row::EMPTY);
            }
            // The test in `start` covers the entire sub-block; this one distinguishes elements.
            let may_move = begin(simd, scratch, number, n_rows, x, half);
            let elem = may_move.trailing_zeros() as usize % SUB_ELEMS;
            scratch.open[n_open % NUMBERS] = Open((number | n_rows << 8 | elem << 16) as u64);
            n_rows += 1;
            n_open += usize::from(may_move != 0);
        }
    }
    // Rounds: each open sub-block makes its next step, and stays open while it has another one.
    while n_open != 0 {
        let mut n_left = 0;
        for from in (0..n_open).step_by(lanes) {
            n_left = advance(simd, scratch, half, from..n_open.min(from + lanes), n_left);
        }
        n_open = n_left;
    }
    // `d = lx / l2`, the best scale for the final levels.
    for (sub, found) in found.iter_mut().enumerate() {
        let slots = sub * MAX_LANES..sub * MAX_LANES + lanes;
        let sum_lx = S::f32s::from_slice(simd, &scratch.sum_lx[slots.clone()]);
        let sum_l2 = S::f32s::from_slice(simd, &scratch.sum_l2[slots]);
        let usable = sum_l2.simd_gt(zero) & !found.empty;
        found.scale = usable.select(sum_lx / sum_l2, zero);
    }
    (wild, may_move)
}

/// Rounds to the scale given by the largest value, and fills `scratch` from number `at` on. Returns the wild
/// lanes, and those whose levels may move. `shares` is for levels and their shares of the sum.
#[simd]
fn start<S: Simd>(
    simd: S,
    x: &[S::f32s; SUB_ELEMS],
    shares: &mut [(S::f32s, S::f32s); SUB_ELEMS],
    half: u8,
    found: &mut Found<S>,
    at: usize,
    scratch: &mut Scratch,
) -> (S::mask32s, S::mask32s) {
    let lanes = S::f32s::LEN;
    let splat = |value: f32| S::f32s::splat(simd, value);
    let zero = splat(0.0);
    let (max, _) = ends(simd, x);
    found.empty = max.abs().simd_lt(splat(SMALLEST_GROUP));
    found.inv_scale = found.empty.select(zero, splat(-f32::from(half)) / max);
    // `lx = sum w x q` and `l2 = sum w q^2` with `w = x^2`.
    let (mut sum_lx, mut sum_l2) = (zero, zero);
    for (x, (chosen, share)) in x.iter().zip(&mut *shares) {
        let (x, w, level) = (*x, *x * *x, rounded(simd, *x, found.inv_scale, half));
        (*chosen, *share) = (level, w * x * level);
        sum_lx += *share;
        sum_l2 += w * level * level;
    }
    // Infinity or NaN anywhere shows in the sum.
    let wild = !found.empty & !sum_lx.abs().simd_lt(splat(f32::INFINITY));
    let test = Test::new(simd, sum_lx, sum_l2, half);
    // The largest left side of the test, in four independent chains.
    let mut strongest = [zero; 4];
    for (x, shares) in x.as_chunks::<4>().0.iter().zip(shares.as_chunks::<4>().0) {
        for i in 0..4 {
            let (level, share) = shares[i];
            let pull = share.mul_add(splat(Test::<S>::SHARE), test.miss(x[i], level));
            strongest[i] = strongest[i].max(pull);
        }
    }
    let strongest = strongest[0].max(strongest[1]).max(strongest[2].max(strongest[3]));
    // Written so that a bound of NaN lets levels move.
    let moves = !strongest.simd_lt(test.bound);
    let slots = at..at + lanes;
    found.inv_scale.store_slice(&mut scratch.inv_scale[slots.clone()]);
    sum_lx.store_slice(&mut scratch.sum_lx[slots.clone()]);
    sum_l2.store_slice(&mut scratch.sum_l2[slots]);
    (wild, max.simd_lt(zero) & !found.empty & !wild & moves)
}

/// Level of an element. The largest magnitude becomes `-half`, so only the upper end needs a bound.
#[simd]
fn rounded<S: Simd>(simd: S, x: S::f32s, inv_scale: S::f32s, half: u8) -> S::f32s {
    let magic = S::f32s::splat(simd, MAGIC);
    let ceiling = S::f32s::splat(simd, MAGIC + f32::from(half) - 1.0);
    (inv_scale * x + magic).min(ceiling) - magic
}

/// Determines by the sums which elements a step may move.
///
/// With `lx` and `l2` the sums without the element, its best level `x * l2 / lx` rounds to the one it has if
/// `|x * l2 - level * lx| < lx / 2`. The sums with the element give the same difference, because its own
/// share cancels out. So what must be below half the sum is
/// `|x * sum_l2 - level * sum_lx| + x^3 * level / 2`, where `x * sum_l2` may be clamped as levels are. The
/// first rounding makes `x * sum_l2 / sum_lx` at most 8 in magnitude; no step lets `sum_lx^2 / sum_l2` fall
/// or `sum_lx` grow to more than about four times its first value, so that it stays below 36. Then all
/// rounding errors, the scalar code's too, are below a 10000th of the sum plus a 1000th of `lx`, unless the
/// sum is so small that a term is subnormal, so large that it overflows, or not positive: in these cases all
/// elements may move.
struct Test<S: Simd> {
    sum_lx: S::f32s,
    sum_l2: S::f32s,
    /// Range of the sum for levels from the lowest to the highest.
    range: [S::f32s; 2],
    /// Nearly half the sum; NaN if the test is inconclusive.
    bound: S::f32s,
}

impl<S: Simd> Test<S> {
    /// Share of `x^3 * level` that counts.
    const SHARE: f32 = 0.499;

    #[inline(always)]
    fn new(simd: S, sum_lx: S::f32s, sum_l2: S::f32s, half: u8) -> Self {
        let splat = |value: f32| S::f32s::splat(simd, value);
        // Outside these bounds a product may be subnormal or overflow.
        let telling = sum_lx.simd_gt(splat(1e-30)) & sum_lx.simd_lt(splat(1e36));
        let half = f32::from(half);
        Test {
            sum_lx,
            sum_l2,
            range: [splat(-half) * sum_lx, splat(half - 1.0) * sum_lx],
            bound: telling.select(splat(0.4989) * sum_lx, splat(f32::NAN)),
        }
    }

    /// Distance of the level from the best one, times the sum.
    #[inline(always)]
    fn miss(&self, x: S::f32s, level: S::f32s) -> S::f32s {
        let best = (x * self.sum_l2).max(self.range[0]).min(self.range[1]);
        (-level).mul_add(self.sum_lx, best).abs()
    }

    /// The lanes whose elements may move; `cube` is [`Test::SHARE`] of `x^3`.
    #[inline(always)]
    fn may_move(&self, x: S::f32s, cube: S::f32s, level: S::f32s) -> u32 {
        let stays = cube.mul_add(level, self.miss(x, level)).simd_lt(self.bound);
        !stays.to_bitmask() as u32 & ((1 << S::f32s::LEN) - 1)
    }
}

/// Fills `row` with a sub-block and returns one bit for each element that may move.
#[simd]
fn begin<S: Simd>(
    simd: S,
    scratch: &mut Scratch,
    number: usize,
    row: usize,
    x: &[f32; SUB_ELEMS],
    half: u8,
) -> u32 {
    let lanes = S::f32s::LEN;
    let splat = |value: f32| S::f32s::splat(simd, value);
    let inv_scale = splat(scratch.inv_scale[number]);
    let test = Test::new(simd, splat(scratch.sum_lx[number]), splat(scratch.sum_l2[number]), half);
    let row = &mut scratch.rows[row];
    let mut may_move = 0;
    for at in (0..SUB_ELEMS).step_by(lanes) {
        let part = at..at + lanes;
        let x = S::f32s::from_slice(simd, &x[part.clone()]);
        let level = rounded(simd, x, inv_scale, half);
        let cube = x * x * x * splat(Test::<S>::SHARE);
        x.store_slice(&mut row.x[part.clone()]);
        cube.store_slice(&mut row.cubes[part.clone()]);
        level.store_slice(&mut row.levels[part]);
        may_move |= test.may_move(x, cube, level) << at;
    }
    may_move
}

/// Makes the next step of up to LEN open sub-blocks, and stores those that continue at place `n_left` of the
/// open ones. Returns the place after them.
#[simd]
fn advance<S: Simd>(
    simd: S,
    scratch: &mut Scratch,
    half: u8,
    group: Range<usize>,
    mut n_left: usize,
) -> usize {
    const ELEMS: [u32; SUB_ELEMS] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];
    let lanes = S::f32s::LEN;
    // Gather the element of the next step, one sub-block per lane.
    let (mut x, mut level) = ([0.0; MAX_LANES], [0.0; MAX_LANES]);
    let (mut sum_lx, mut sum_l2) = ([0.0; MAX_LANES], [0.0; MAX_LANES]);
    for (lane, open) in scratch.open[group.clone()].iter().enumerate().take(MAX_LANES) {
        let row = &scratch.rows[open.row()];
        x[lane] = row.x[open.elem()];
        level[lane] = row.levels[open.elem()];
        sum_lx[lane] = scratch.sum_lx[open.number()];
        sum_l2[lane] = scratch.sum_l2[open.number()];
    }
    let vector = |values: &[f32; MAX_LANES]| S::f32s::from_slice(simd, &values[..lanes]);
    let mut sums = (vector(&sum_lx), vector(&sum_l2), S::mask32s::splat(simd, false));
    let new = step(simd, vector(&x), vector(&level), half, &mut sums);
    let moved = sums.2.to_bitmask();
    let Test { sum_lx, sum_l2, range, bound } = Test::new(simd, sums.0, sums.1, half);
    // Scatter the new sums and levels, and test each sub-block again, one element per lane.
    let mut by_lane = [[0.0; MAX_LANES]; 6];
    for (by_lane, vector) in by_lane.iter_mut().zip([sum_lx, sum_l2, range[0], range[1], bound, new]) {
        vector.store_slice(&mut by_lane[..lanes]);
    }
    for (lane, at) in group.enumerate().take(MAX_LANES) {
        let splat = |row: usize| S::f32s::splat(simd, by_lane[row][lane]);
        let open = scratch.open[at];
        let number = open.number();
        scratch.sum_lx[number] = by_lane[0][lane];
        scratch.sum_l2[number] = by_lane[1][lane];
        let (range, new) = ([splat(2), splat(3)], splat(5));
        let test: Test<S> = Test { sum_lx: splat(0), sum_l2: splat(1), range, bound: splat(4) };
        let row = &mut scratch.rows[open.row()];
        let mut may_move = 0;
        for at in (0..SUB_ELEMS).step_by(lanes) {
            let part = at..at + lanes;
            let here = S::u32s::from_slice(simd, &ELEMS[part.clone()]);
            let here = here.simd_eq(S::u32s::splat(simd, open.elem() as u32));
            let level = S::f32s::from_slice(simd, &row.levels[part.clone()]);
            let level = here.select(new, level);
            level.store_slice(&mut row.levels[part.clone()]);
            let x = S::f32s::from_slice(simd, &row.x[part.clone()]);
            let cube = S::f32s::from_slice(simd, &row.cubes[part]);
            may_move |= test.may_move(x, cube, level) << at;
        }
        let (open, continues) = open.after(moved >> lane & 1 == 1, may_move);
        scratch.open[n_left % NUMBERS] = open;
        n_left += usize::from(continues);
    }
    n_left
}

/// Moves the level of an element if that helps; equal to the scalar code for every input. Returns the lanes
/// that have moved, and updates the sums of `weight * x * level` and of `weight * level^2`.
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
    // The sums without the element, its best level for the rest (`x l2 / lx`), and the sums with that.
    let mut lx = *sum_lx - weighted * level;
    let mut l2 = *sum_l2 - w * level * level;
    let new = nearest_int(simd, x * l2 / lx).bitcast::<S::i32s>().max(low).min(high);
    let new: S::f32s = new.to_float();
    // Conditions are applied by blends instead of combined masks, which pass through scalar registers.
    let new = lx.simd_gt(zero).select(new, level);
    let none = S::f32s::splat(simd, f32::NEG_INFINITY);
    let base = new.simd_eq(level).select(none, *sum_l2);
    lx += weighted * new;
    l2 += w * new * new;
    // Better if `lx^2 / l2` grew, multiplied out; minus infinity is never better.
    let quality = l2.simd_gt(zero).select(lx * lx * base, none);
    let better = quality.simd_gt(*sum_lx * *sum_lx * l2);
    *sum_lx = better.select(lx, *sum_lx);
    *sum_l2 = better.select(l2, *sum_l2);
    *moved |= better;
    better.select(new, level)
}
