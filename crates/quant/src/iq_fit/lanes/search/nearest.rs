//! The nearest points of the runs of scales for which a group is off the grid.
//!
//! A run whose ends have one nearest point is settled by evaluating the lines of its list twice. The others
//! are processed point by point, with all scales at once, one per lane.

use fearless_simd::{Simd, prelude::*};
use fearless_simd_macros::simd;

use super::{MAX_VECTORS, Run, Scales, Search, odd};
use crate::iq_fit::{
    lanes::{Lookup, Sub},
    lattice,
};

/// Fields of a code that are looked up at once: single levels, or pairs if registers contain 16 floats.
const MAX_FIELDS: usize = 8;
/// Maximum number of vectors of points in a list.
pub(super) const MAX_POINT_VECTORS: usize = 48;

/// Minimum distance between lines, in parts of `2 X / s + line`, to decide like the reference's sums.
///
/// Write `u` for `2^-24`, `n` for the dimensions, `c` for a point's distance. An element's term is `r` times
/// a square below `(|s q| + |x|)^2` with a relative error of 6 `u`, and the sum adds `n - 1`, so the
/// reference's distance errs by at most `2 (n + 5) u (s^2 A + X)`. `A` errs by `n u` and `2 B` by
/// `(n + 1) u`, the line by one more for its product and one for its difference, `s` times the line thus by
/// `(n + 2) u (2 s^2 A + X)`. With `s^2 A <= 2 X + 2 c` the two together are, for `n = 4`, below
/// `87 u X + 62 u c`. For two points with `c` and `c + d` that is below `d` if `d >= 175 u (X + c)`, and
/// `X + c` is `s (2 X / s + line)`. For `n = 8` it is `131 u X + 94 u c` and `263 u (X + c)`. If this is true
/// at both ends of a range, it is true in between, because the difference of two lines is a line and the
/// margin is convex in `s`.
const fn margin(dims: usize) -> f32 {
    const U: f32 = 1.0 / 16_777_216.0;
    if dims == 4 { 192.0 * U } else { 288.0 * U }
}

/// Maximum effect of underflow on a distance, for scales below 2^20: points this close are compared exactly.
const TINY: f32 = 1.262_177_4e-29;

/// Lines of a group: `A` and `2 B` of each value of each field of a code.
pub(super) struct Lines<S: Simd> {
    a: [S::f32s; MAX_FIELDS],
    b: [S::f32s; MAX_FIELDS],
    /// [`margin`] `* 2 X +` [`TINY`].
    margin: f32,
}

impl<S: Simd> Lines<S> {
    #[inline(always)]
    pub(super) fn new(simd: S) -> Self {
        let zero = S::f32s::splat(simd, 0.0);
        Lines { a: [zero; MAX_FIELDS], b: [zero; MAX_FIELDS], margin: 0.0 }
    }
}

/// Fills the tables of a group.
#[simd]
pub(super) fn make_lines<S: Lookup, const SUB: usize, const DIMS: usize, const LEVELS: usize>(
    simd: S,
    this: &mut Search<'_, S, SUB, DIMS, LEVELS>,
    sub: &Sub<S, SUB>,
    lane: usize,
    group: usize,
) {
    let splat = |value: f32| S::f32s::splat(simd, value);
    let lines = &mut this.lines[group];
    let low = odd(simd, LEVELS, 0);
    let high = odd(simd, LEVELS, 2);
    for field in 0..Search::<S, SUB, DIMS, LEVELS>::FIELDS {
        if Search::<S, SUB, DIMS, LEVELS>::PAIRS {
            let at = group * DIMS + 2 * field;
            let root = |i: usize| splat(sub.roots[i].as_slice()[lane]);
            let twice = |i: usize| splat(sub.twice[i].as_slice()[lane]);
            lines.a[field] = root(at) * (low * low) + root(at + 1) * (high * high);
            lines.b[field] = twice(at) * low + twice(at + 1) * high;
        } else {
            let at = group * DIMS + field;
            lines.a[field] = splat(sub.roots[at].as_slice()[lane]) * (low * low);
            lines.b[field] = splat(sub.twice[at].as_slice()[lane]) * low;
        }
    }
    lines.margin = margin(DIMS) * 2.0 * sub.x2[group].as_slice()[lane] + TINY;
}

/// Computes the lines of a list into `this.a` and `this.b`; returns the number of vectors.
#[inline(always)]
fn line_up<S: Lookup, const SUB: usize, const DIMS: usize, const LEVELS: usize>(
    simd: S,
    this: &mut Search<'_, S, SUB, DIMS, LEVELS>,
    group: usize,
    list: &[u16],
    n: usize,
) -> usize {
    let lanes = S::f32s::LEN;
    let lines = &this.lines[group];
    let lane_numbers = S::u32s::from_fn(
        simd,
        #[inline(always)]
        |lane| lane as u32,
    );
    let infinite = S::f32s::splat(simd, f32::INFINITY);
    let n_vectors = n.div_ceil(lanes);
    for v in 0..n_vectors {
        // LEN points: the sums over their fields, each field looked up in the table of its dimension.
        let codes = simd.widen(&list[v * lanes..]);
        let mut a = simd.look(lines.a[0], codes);
        let mut b = simd.look(lines.b[0], codes);
        for field in 1..Search::<S, SUB, DIMS, LEVELS>::FIELDS {
            let index = codes >> (field as u32 * Search::<S, SUB, DIMS, LEVELS>::FIELD_BITS);
            a += simd.look(lines.a[field], index);
            b += simd.look(lines.b[field], index);
        }
        // Lanes beyond the list get a line that is never lowest.
        let in_list = lane_numbers.simd_lt(S::u32s::splat(simd, (n - v * lanes) as u32));
        this.a[v] = in_list.select(a, infinite);
        this.b[v] = b;
    }
    n_vectors
}

pub(super) struct List<'a, S: Simd> {
    codes: &'a [u16],
    a: &'a [S::f32s],
    b: &'a [S::f32s],
    margin: f32,
}

/// The nearest point at a scale, according to the lines.
#[derive(Clone, Copy)]
pub(super) struct Nearest {
    /// Number of candidates.
    n: u32,
    at: usize,
    /// Upper bound of the candidates' lines.
    bound: f32,
}

/// The points that may be nearest at a scale.
#[inline(always)]
pub(super) fn lowest<S: Lookup, const DIMS: usize>(
    simd: S,
    list: &List<'_, S>,
    (scale, inverse): (f32, f32),
) -> Nearest {
    let n_vectors = list.a.len();
    let (a, b) = (&list.a[..n_vectors], &list.b[..n_vectors]);
    let s = S::f32s::splat(simd, scale);
    // The lowest line at this scale, then all lines within the margin.
    let first = a[0] * s - b[0];
    let mut least = first;
    for v in 1..n_vectors {
        least = least.min(a[v] * s - b[v]);
    }
    let least = least.reduce_min();
    let bound = least + (margin(DIMS) * least + list.margin * inverse);
    let near = first.simd_le(S::f32s::splat(simd, bound)).to_bitmask();
    let (mut n, mut at) = (near.count_ones(), near.trailing_zeros() as usize);
    for v in 1..n_vectors {
        let near = (a[v] * s - b[v]).simd_le(S::f32s::splat(simd, bound)).to_bitmask();
        n += near.count_ones();
        at = if near != 0 { v * S::f32s::LEN + near.trailing_zeros() as usize } else { at };
    }
    Nearest { n, at, bound }
}

/// Code of the nearest point; several candidates are compared by the reference's sums.
#[simd]
pub(super) fn decide<S: Lookup, const SUB: usize, const DIMS: usize, const LEVELS: usize>(
    simd: S,
    list: &List<'_, S>,
    nearest: Nearest,
    (sub, lane): (&Sub<S, SUB>, usize),
    group: usize,
    scale: f32,
) -> u32 {
    // One line is lower than all others by more than the margin.
    if nearest.n == 1 {
        return u32::from(list.codes[nearest.at]);
    }
    let values: [f32; DIMS] = std::array::from_fn(
        #[inline(always)]
        |dim| sub.x[group * DIMS + dim].as_slice()[lane],
    );
    let roots: [f32; DIMS] = std::array::from_fn(
        #[inline(always)]
        |dim| sub.roots[group * DIMS + dim].as_slice()[lane],
    );
    let s = S::f32s::splat(simd, scale);
    let bound = S::f32s::splat(simd, nearest.bound);
    let (mut best, mut found) = (f32::MAX, list.codes[0]);
    for v in 0..list.a.len() {
        let mut near = (list.a[v] * s - list.b[v]).simd_le(bound).to_bitmask();
        while near != 0 {
            let code = list.codes[v * S::f32s::LEN + near.trailing_zeros() as usize];
            near &= near - 1;
            let distance = lattice::distance::<DIMS, LEVELS>(code, &values, &roots, scale);
            if distance < best {
                (best, found) = (distance, code);
            }
        }
    }
    u32::from(found)
}

#[inline(always)]
pub(super) fn list_of<'a, S: Lookup, const SUB: usize, const DIMS: usize, const LEVELS: usize>(
    simd: S,
    this: &'a mut Search<'_, S, SUB, DIMS, LEVELS>,
    group: usize,
    entry: u32,
) -> (List<'a, S>, &'a mut [S::u32s; MAX_VECTORS]) {
    let points = this.points;
    let (codes, n) = points.list(entry);
    let n_vectors = line_up(simd, this, group, codes, n);
    let margin = this.lines[group].margin;
    (List { codes, a: &this.a[..n_vectors], b: &this.b[..n_vectors], margin }, &mut this.codes[group])
}

/// Replaces the codes of a run by that of the point which is nearest at both ends, and returns true if there
/// is one. Otherwise the codes are arbitrary.
#[inline(always)]
pub(super) fn settle_by_ends<S: Lookup, const SUB: usize, const DIMS: usize, const LEVELS: usize>(
    simd: S,
    this: &mut Search<'_, S, SUB, DIMS, LEVELS>,
    scales: &Scales<S>,
    n_vectors: usize,
    run: Run,
) -> bool {
    let (list, target) = list_of(simd, this, usize::from(run.group), run.entry);
    let (first, last) = (usize::from(run.first), usize::from(run.last));
    // The lowest at both ends is the lowest in between: lines cross once.
    let at_first = lowest::<S, DIMS>(simd, &list, scales.at(first));
    let at_last = lowest::<S, DIMS>(simd, &list, scales.at(last));
    // Before it is known whether it is right, so that no instruction waits for the comparison.
    fill::<S>(
        simd,
        target,
        n_vectors,
        (first, last),
        u32::from(list.codes[at_first.at.min(list.codes.len() - 1)]),
    );
    (at_first.n == 1) & (at_last.n == 1) & (at_first.at == at_last.at)
}

/// Replaces the codes of a run by those of its nearest points: all scales at once, one per lane, point by
/// point.
#[simd]
pub(super) fn settle<S: Lookup, const SUB: usize, const DIMS: usize, const LEVELS: usize>(
    simd: S,
    this: &mut Search<'_, S, SUB, DIMS, LEVELS>,
    (sub, lane): (&Sub<S, SUB>, usize),
    scales: &Scales<S>,
    run: Run,
) {
    let lanes = S::f32s::LEN;
    let splat = |value: f32| S::f32s::splat(simd, value);
    let group = usize::from(run.group);
    let n_points = this.points.list(run.entry).1;
    let (list, target) = list_of(simd, this, group, run.entry);
    let (first, last) = (usize::from(run.first), usize::from(run.last));
    for v in first / lanes..=last / lanes {
        let scale = scales.scale[v];
        // The lowest and the second lowest line of each scale, and the point of the lowest.
        let (mut least, mut second) = (splat(f32::INFINITY), splat(f32::INFINITY));
        let mut nearest = S::u32s::splat(simd, 0);
        for (at, codes) in list.codes[..n_points].chunks(lanes).enumerate() {
            let (a, b) = (list.a[at].as_slice(), list.b[at].as_slice());
            for ((&code, &a), &b) in codes.iter().zip(a).zip(b) {
                let line = splat(a) * scale - splat(b);
                let less = line.simd_lt(least);
                second = second.min(least.max(line));
                least = least.min(line);
                nearest = less.select(S::u32s::splat(simd, u32::from(code)), nearest);
            }
        }
        let bound = least + (splat(margin(DIMS)) * least + splat(list.margin) * scales.inverse[v]);
        let numbers = S::u32s::from_fn(
            simd,
            #[inline(always)]
            |lane| (v * lanes + lane) as u32,
        );
        // One comparison for both ends: numbers before `first` wrap around to large ones.
        let n = S::u32s::splat(simd, (last - first) as u32);
        let in_run = (numbers - S::u32s::splat(simd, first as u32)).simd_le(n);
        target[v] = in_run.select(nearest, target[v]);
        // If the second is within the margin, both are compared exactly.
        let mut unclear = (in_run & !second.simd_gt(bound)).to_bitmask();
        while unclear != 0 {
            let at = unclear.trailing_zeros() as usize;
            unclear &= unclear - 1;
            let nearest = Nearest { n: 2, at: 0, bound: bound.as_slice()[at] };
            let scale = scale.as_slice()[at];
            target[v].as_mut_slice()[at] =
                decide::<S, SUB, DIMS, LEVELS>(simd, &list, nearest, (sub, lane), group, scale);
        }
    }
}

/// Sets the codes of the scales `first..=last`.
#[inline(always)]
fn fill<S: Lookup>(
    simd: S,
    codes: &mut [S::u32s; MAX_VECTORS],
    n_vectors: usize,
    (first, last): (usize, usize),
    code: u32,
) {
    let code = S::u32s::splat(simd, code);
    let n = S::u32s::splat(simd, (last - first) as u32);
    for v in 0..n_vectors {
        // One comparison for both ends, like in [`settle`].
        let from_first = S::u32s::from_fn(
            simd,
            #[inline(always)]
            |lane| (v * S::f32s::LEN + lane) as u32,
        ) - S::u32s::splat(simd, first as u32);
        codes[v] = from_first.simd_le(n).select(code, codes[v]);
    }
}
