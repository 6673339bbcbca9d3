//! The scale search of one sub-block, one candidate scale per lane.
//!
//! Most of the scalar search's time goes into neighbour lists: for every candidate scale, every group that is
//! off the grid has tens of points whose weighted distances are summed in eight roundings. Three facts avoid
//! nearly all this work:
//!
//! 1. Neighboring scales round a group to one code, so they share the list.
//! 2. The distance is `s^2 A - 2 s B + X`, with `A = sum r q^2`, `B = sum r x q` and `X = sum r x^2`: its
//!    part that depends on the point, over `s`, is the line `s A - 2 B`. A point whose line is lowest at both
//!    ends of a range of scales is nearest at all scales in between.
//! 3. Lines are cheap: `A` and `B` are sums over a few fields of the code, each looked up in a register.
//!
//! Lines are not the numbers that the reference compares. Its sums differ from the true distances, and so do
//! the lines, by bounded errors; a point is accepted by its line only if no other is closer than both errors
//! together (`nearest::margin`). Otherwise the candidates are compared by the reference's own sums, in its
//! order.

mod nearest;

use fearless_simd::{Simd, prelude::*};
use fearless_simd_macros::simd;

use self::nearest::{Lines, MAX_POINT_VECTORS, decide, list_of, lowest, make_lines, settle, settle_by_ends};
use super::{Lookup, Sub, points::Points};
use crate::{
    iq_fit::lattice::{Lattice, Refit},
    round::MAGIC,
};

/// Vectors of candidate scales: 31 scales are four of eight.
const MAX_VECTORS: usize = 4;
/// Candidate scales, padded to a multiple of the vectors.
const MAX_SCALES: usize = 32;
const MAX_GROUPS: usize = 8;
/// Relative margin by which a candidate's gain must exceed all others to win without individual comparisons:
/// far more than the roundings of a gain.
const AHEAD: f32 = 1.0 / 32768.0;

/// A group whose code is off the grid for the scales `first..=last`.
#[derive(Clone, Copy, Default)]
struct Run {
    group: u8,
    first: u8,
    last: u8,
    entry: u32,
}

pub struct Search<'a, S: Simd, const SUB: usize, const DIMS: usize, const LEVELS: usize> {
    lattice: &'a Lattice<SUB, DIMS, LEVELS>,
    points: &'a Points,
    /// `(MAX_GROUPS, MAX_SCALES)` codes.
    codes: [[S::u32s; MAX_VECTORS]; MAX_GROUPS],
    /// Scales for which each group is off the grid, one bit each.
    off: [u32; MAX_GROUPS],
    runs: [Run; MAX_GROUPS * MAX_SCALES],
    lines: [Lines<S>; MAX_GROUPS],
    a: [S::f32s; MAX_POINT_VECTORS],
    b: [S::f32s; MAX_POINT_VECTORS],
}

/// The candidate scales of a sub-block.
struct Scales<S: Simd> {
    inverse: [S::f32s; MAX_VECTORS],
    scale: [S::f32s; MAX_VECTORS],
}

impl<S: Simd> Scales<S> {
    #[inline(always)]
    fn at(&self, n: usize) -> (f32, f32) {
        let (vector, lane) = (n / S::f32s::LEN, n % S::f32s::LEN);
        (self.scale[vector].as_slice()[lane], self.inverse[vector].as_slice()[lane])
    }
}

/// Result of the search for one sub-block.
pub struct Picked {
    pub scale: f32,
    /// The codes, all in the codebook.
    pub codes: [u32; MAX_GROUPS],
    /// Groups that were off the grid, one bit each.
    pub off: u32,
}

impl<'a, S: Lookup, const SUB: usize, const DIMS: usize, const LEVELS: usize>
    Search<'a, S, SUB, DIMS, LEVELS>
{
    const N_GROUPS: usize = SUB / DIMS;
    const BITS: usize = LEVELS.trailing_zeros() as usize;
    const TOP: f32 = if LEVELS == 4 { 2.0 } else { 7.0 };
    /// True if a field is two levels.
    const PAIRS: bool = LEVELS == 4 && S::f32s::LEN == 16;
    const FIELDS: usize = if Self::PAIRS { DIMS / 2 } else { DIMS };
    const FIELD_BITS: u32 = if Self::PAIRS { 4 } else { Self::BITS as u32 };

    #[inline(always)]
    pub fn new(simd: S, lattice: &'a Lattice<SUB, DIMS, LEVELS>, points: &'a Points) -> Self {
        let (zero, none) = (S::f32s::splat(simd, 0.0), S::u32s::splat(simd, 0));
        Search {
            lattice,
            points,
            codes: [[none; MAX_VECTORS]; MAX_GROUPS],
            off: [0; MAX_GROUPS],
            runs: [Run::default(); MAX_GROUPS * MAX_SCALES],
            lines: std::array::from_fn(|_| Lines::new(simd)),
            a: [zero; MAX_POINT_VECTORS],
            b: [zero; MAX_POINT_VECTORS],
        }
    }
}

/// The level in the low bits of a field, by lane: `2 l + 1` of bits `shift..` of the lane's number.
#[simd]
fn odd<S: Lookup>(simd: S, levels: usize, shift: usize) -> S::f32s {
    S::f32s::from_fn(
        simd,
        #[inline(always)]
        |lane| (2 * (lane >> shift & (levels - 1)) + 1) as f32,
    )
}

/// [`Lattice::search`] for lane `lane` of a sub-block; equal for every input outside the wild lanes of
/// [`super`].
#[simd]
pub fn search<S: Lookup, const SUB: usize, const DIMS: usize, const LEVELS: usize>(
    simd: S,
    this: &mut Search<'_, S, SUB, DIMS, LEVELS>,
    sub: &Sub<S, SUB>,
    lane: usize,
    (start, anchor): (f32, f32),
) -> Picked {
    let lanes = S::f32s::LEN;
    let n_scales = 2 * this.lattice.n_steps as usize + 1;
    let n_vectors = n_scales.div_ceil(lanes);
    let mut scales =
        Scales::<S> { inverse: [S::f32s::splat(simd, 0.0); 4], scale: [S::f32s::splat(simd, 0.0); 4] };
    for v in 0..n_vectors {
        // Candidate `n` maps the anchor to `2 TOP + 1 + (n - n_steps) * step`; `inverse` converts values to
        // levels.
        let first = (v * lanes) as i32 - this.lattice.n_steps;
        let step = this.lattice.step;
        let span = S::f32s::from_fn(
            simd,
            #[inline(always)]
            |lane| (2.0 * Search::<S, SUB, DIMS, LEVELS>::TOP + 1.0) + (first + lane as i32) as f32 * step,
        );
        scales.inverse[v] = span / S::f32s::splat(simd, anchor);
        scales.scale[v] = S::f32s::splat(simd, 1.0) / scales.inverse[v];
    }
    let n_runs = round_all(simd, this, sub, lane, &scales, n_scales, n_vectors);
    // Runs that their ends do not settle are deferred: they are unpredictable, and a mispredicted branch
    // would discard the work on the following runs.
    let mut n_hard = 0;
    for at in 0..n_runs {
        let run = this.runs[at];
        let settled = settle_by_ends(simd, this, &scales, n_vectors, run);
        this.runs[n_hard] = run;
        n_hard += usize::from(!settled);
    }
    for at in 0..n_hard {
        let run = this.runs[at];
        settle(simd, this, (sub, lane), &scales, run);
    }
    choose(simd, this, sub, lane, (n_scales, n_vectors), start)
}

/// Rounds all groups at all scales and lists the runs of scales that are off the grid; returns their number.
#[simd]
fn round_all<S: Lookup, const SUB: usize, const DIMS: usize, const LEVELS: usize>(
    simd: S,
    this: &mut Search<'_, S, SUB, DIMS, LEVELS>,
    sub: &Sub<S, SUB>,
    lane: usize,
    scales: &Scales<S>,
    n_scales: usize,
    n_vectors: usize,
) -> usize {
    let lanes = S::f32s::LEN;
    let splat = |value: f32| S::f32s::splat(simd, value);
    let mut half_inverse = scales.inverse;
    for v in 0..n_vectors {
        half_inverse[v] *= splat(0.5);
    }
    let mut n_runs = 0;
    for group in 0..Search::<S, SUB, DIMS, LEVELS>::N_GROUPS {
        // (MAX_VECTORS, LEN scales): the code to which each scale rounds the group.
        let mut codes = [S::u32s::splat(simd, 0); MAX_VECTORS];
        for dim in 0..DIMS {
            let x = splat(sub.x[group * DIMS + dim].as_slice()[lane]);
            for v in 0..n_vectors {
                codes[v] += level_bits::<S, LEVELS>(simd, half_inverse[v] * x)
                    << (Search::<S, SUB, DIMS, LEVELS>::BITS * dim) as u32;
            }
        }
        let mut ends = 0u64;
        for v in 0..n_vectors {
            // A run ends if the next scale has another code, and at the last scale.
            let next = codes[v].slide::<1>(codes[(v + 1).min(MAX_VECTORS - 1)]);
            ends |= codes[v].simd_ne(next).to_bitmask() << (lanes * v);
        }
        this.codes[group] = codes;
        ends = (ends & ((1 << n_scales) - 1)) | 1 << (n_scales - 1);
        let mut first = 0;
        let mut off = 0;
        while ends != 0 {
            let last = ends.trailing_zeros() as usize;
            ends &= ends - 1;
            let code = this.codes[group][last / lanes].as_slice()[last % lanes];
            let entry = this.points.entry(code);
            // Always written, and counted if it is off the grid, because a branch here would be mispredicted
            // often.
            this.runs[n_runs] = Run { group: group as u8, first: first as u8, last: last as u8, entry };
            let is_off = u32::from(entry != 0);
            n_runs += is_off as usize;
            // Bits `first` to `last`.
            off |= ((2u32 << last).wrapping_sub(1 << first)) * is_off;
            first = last + 1;
        }
        this.off[group] = off;
        make_lines(simd, this, sub, lane, group);
    }
    n_runs
}

/// The level nearest to `(2 half - 1) / 2`, clamped: `half` is half of the scaled value. Scaling by 1/2 is
/// exact, so this rounds like the scalar code.
#[simd]
fn level_bits<S: Lookup, const LEVELS: usize>(simd: S, half: S::f32s) -> S::u32s {
    let top = if LEVELS == 4 { 2.0 } else { 7.0 };
    let magic = S::f32s::splat(simd, MAGIC);
    let rounded =
        (half - S::f32s::splat(simd, 0.5) + magic).max(magic).min(S::f32s::splat(simd, MAGIC + top));
    rounded.bitcast::<S::u32s>() - magic.bitcast::<S::u32s>()
}

/// The scale with the least error, and its codes.
#[simd]
fn choose<S: Lookup, const SUB: usize, const DIMS: usize, const LEVELS: usize>(
    simd: S,
    this: &Search<'_, S, SUB, DIMS, LEVELS>,
    sub: &Sub<S, SUB>,
    lane: usize,
    (n_scales, n_vectors): (usize, usize),
    start: f32,
) -> Picked {
    let lanes = S::f32s::LEN;
    let splat = |value: f32| S::f32s::splat(simd, value);
    let zero = splat(0.0);
    let (mut sum_qx, mut sum_q2) = ([zero; MAX_VECTORS], [zero; MAX_VECTORS]);
    let level = odd(simd, LEVELS, 0);
    for group in 0..Search::<S, SUB, DIMS, LEVELS>::N_GROUPS {
        for dim in 0..DIMS {
            let at = group * DIMS + dim;
            let w = splat(sub.w[at].as_slice()[lane]);
            let wx = splat(sub.wx[at].as_slice()[lane]);
            for v in 0..n_vectors {
                let index = this.codes[group][v] >> (Search::<S, SUB, DIMS, LEVELS>::BITS * dim) as u32;
                // The lookup uses the low bits of the index and ignores the fields above them, so no mask is
                // needed.
                let q = simd.look(level, index);
                sum_qx[v] += wx * q;
                sum_q2[v] += w * q * q;
            }
        }
    }
    // The winner is the first of the largest `qx^2 / q2`, up to rounding: if one is clearly ahead, the order
    // of comparisons does not matter.
    let mut gains = [splat(-1.0); MAX_VECTORS];
    let mut largest = splat(-1.0);
    for v in 0..n_vectors {
        // Reduction of the error by a candidate with its best scale.
        let gain = sum_qx[v] * (sum_qx[v] / sum_q2[v]);
        let numbers = S::u32s::from_fn(
            simd,
            #[inline(always)]
            |lane| (v * lanes + lane) as u32,
        );
        let valid = sum_q2[v].simd_gt(zero) & numbers.simd_lt(S::u32s::splat(simd, n_scales as u32));
        gains[v] = valid.select(gain, splat(-1.0));
        largest = largest.max(gains[v]);
    }
    let largest = largest.reduce_max();
    let bound = splat(largest * (1.0 - AHEAD));
    let mut close = 0;
    for v in 0..n_vectors {
        close |= gains[v].simd_ge(bound).to_bitmask() << (lanes * v);
    }
    let mut winner = None;
    let mut scale = start;
    let ahead = close.trailing_zeros() as usize % MAX_SCALES;
    // Within these bounds no square or product of the sums overflows or is subnormal.
    let ordinary = |value: f32| value > 1e-15 && value < 1e15;
    let qx = sum_qx[ahead / lanes].as_slice()[ahead % lanes];
    let q2 = sum_q2[ahead / lanes].as_slice()[ahead % lanes];
    if close.count_ones() == 1 && ordinary(qx.abs()) && ordinary(q2) {
        winner = Some(ahead);
        scale = qx / q2;
    } else {
        let mut best = 0.0;
        for at in 0..n_scales {
            let qx = sum_qx[at / lanes].as_slice()[at % lanes];
            let q2 = sum_q2[at / lanes].as_slice()[at % lanes];
            if q2 > 0.0 && qx * qx > best * q2 {
                scale = qx / q2;
                best = scale * qx;
                winner = Some(at);
            }
        }
    }
    let mut picked = Picked { scale, codes: [0; MAX_GROUPS], off: 0 };
    match winner {
        Some(at) => {
            for group in 0..Search::<S, SUB, DIMS, LEVELS>::N_GROUPS {
                picked.codes[group] = this.codes[group][at / lanes].as_slice()[at % lanes];
                picked.off |= (this.off[group] >> at & 1) << group;
            }
        }
        // Like the initial flags of the scalar search.
        None if this.lattice.refit == Refit::AllIfAnyOff => picked.off = 0xff,
        None => (),
    }
    picked
}

/// The nearest point of an off-grid code of one group at one scale.
#[simd]
pub fn place<S: Lookup, const SUB: usize, const DIMS: usize, const LEVELS: usize>(
    simd: S,
    this: &mut Search<'_, S, SUB, DIMS, LEVELS>,
    sub: &Sub<S, SUB>,
    lane: usize,
    group: usize,
    code: u32,
    scale: (f32, f32),
) -> u32 {
    let entry = this.points.entry(code);
    if entry == 0 {
        return code;
    }
    make_lines(simd, this, sub, lane, group);
    let (list, _) = list_of(simd, this, group, entry);
    let nearest = lowest::<S, DIMS>(simd, &list, scale);
    decide::<S, SUB, DIMS, LEVELS>(simd, &list, nearest, (sub, lane), group, scale.0)
}

/// The codes of all groups, one scale per lane.
#[simd]
pub fn round_lanes<S: Lookup, const SUB: usize, const DIMS: usize, const LEVELS: usize>(
    simd: S,
    sub: &Sub<S, SUB>,
    inverse: S::f32s,
    codes: &mut [S::u32s; MAX_GROUPS],
) {
    let half = inverse * S::f32s::splat(simd, 0.5);
    for group in 0..SUB / DIMS {
        codes[group] = S::u32s::splat(simd, 0);
        for dim in 0..DIMS {
            codes[group] += level_bits::<S, LEVELS>(simd, half * sub.x[group * DIMS + dim])
                << (LEVELS.trailing_zeros() as usize * dim) as u32;
        }
    }
}

/// `sum w*x*q` and `sum w*q*q`, per lane.
#[simd]
pub fn sums_of_lanes<S: Lookup, const SUB: usize, const DIMS: usize, const LEVELS: usize>(
    simd: S,
    sub: &Sub<S, SUB>,
    codes: &[S::u32s; MAX_GROUPS],
) -> (S::f32s, S::f32s) {
    let level = odd(simd, LEVELS, 0);
    let mut sum_qx = S::f32s::splat(simd, 0.0);
    let mut sum_q2 = sum_qx;
    for group in 0..SUB / DIMS {
        for dim in 0..DIMS {
            let at = group * DIMS + dim;
            let q = simd.look(level, codes[group] >> (LEVELS.trailing_zeros() as usize * dim) as u32);
            sum_qx += sub.wx[at] * q;
            sum_q2 += sub.w[at] * q * q;
        }
    }
    (sum_qx, sum_q2)
}
