//! [`iq_fit::nonlinear`](crate::iq_fit::nonlinear), one sub-block per lane: the search of IQ4_NL and IQ4_XS.
//!
//! A quadratic curve maps the 16 uneven table values to 15 cells, each around one midpoint of two neighbors,
//! so a cell is two table values and the number that separates them. The first of the 16 candidate scales has
//! the opposite sign; the rest differ by at most 5.6 % from their middle, which moves no value across two
//! midpoints. So one table look-up serves all: each candidate multiplies, compares, and adds one of two
//! precomputed products.

use fearless_simd::{Simd, prelude::*};
use fearless_simd_macros::simd;

use super::{MAGIC, decode::look_up, signed::largest, sum_of_squares};
use crate::{fit::SMALLEST_GROUP, grids::IQ4_VALUES, iq_fit::nonlinear::SUB};

/// The curve: magnitude `u` of a value is `u * (SLOPE - BEND * u)` cells from zero. The ends of cells need
/// not be exact; see the test.
const SLOPE: f32 = 0.09;
const BEND: f32 = 0.000_23;
/// Largest magnitude covered by the curve; there are no cells beyond.
const LAST: f32 = 134.0;
/// Candidates that are summed up in parallel.
const SIDES: usize = 5;
/// Index of the middle candidate, not counting the first; there is this number on each side.
const MIDDLE: usize = 7;

pub const BIAS: f32 = 127.0;
/// The table, with [`BIAS`] added.
pub const LOWER: [u8; 16] = table(0);
/// The table from the second value on.
const UPPER: [u8; 16] = table(1);

const fn table(shift: usize) -> [u8; 16] {
    let mut table = [0; 16];
    let mut index = 0;
    while index + shift < 16 {
        table[index] = (IQ4_VALUES[index + shift] as i16 + 127) as u8;
        index += 1;
    }
    table
}

/// The cell of a value: its nearest table value is `lower` with index `index` or `upper`, the next one.
struct Cell<S: Simd> {
    index: S::u32s,
    lower: S::f32s,
    upper: S::f32s,
    middle: S::f32s,
}

#[simd]
fn cell<S: Simd>(simd: S, value: S::f32s) -> Cell<S> {
    let splat = |value: f32| S::f32s::splat(simd, value);
    // Index of the cell: an odd quadratic of the value, fitted to the 15 cells.
    let size = value.abs().min(splat(LAST));
    let cells = (size * (splat(SLOPE) - splat(BEND) * size)).copysign(value);
    // Rounding `cells - 0.5` approximates the floor; zero lies between cells 7 and 8.
    let bits = ((cells + splat(7.5)) + splat(MAGIC)).bitcast::<S::u32s>();
    let index = (bits - S::u32s::splat(simd, MAGIC.to_bits())).min(S::u32s::splat(simd, 14));
    let lower = look_up(simd, &LOWER, index, BIAS);
    let upper = look_up(simd, &UPPER, index, BIAS);
    Cell { index, lower, upper, middle: (lower + upper) * splat(0.5) }
}

/// The indices of the table values nearest to `inv_scale * x`.
#[simd]
pub fn nearest_indices<S: Simd>(
    simd: S,
    x: &[S::f32s; SUB],
    inv_scale: S::f32s,
    indices: &mut [S::u32s; SUB],
) {
    let one = S::u32s::splat(simd, 1);
    for i in 0..SUB {
        let value = inv_scale * x[i];
        let cell = cell(simd, value);
        indices[i] = value.simd_ge(cell.middle).select(cell.index + one, cell.index);
    }
}

/// Weights of a sub-block: the squares of the values, or importance combined with `2 * mean square`.
#[simd]
pub fn weights<S: Simd>(
    _simd: S,
    x: &[S::f32s; SUB],
    importance: Option<(&[S::f32s; SUB], S::f32s)>,
    w: &mut [S::f32s; SUB],
) {
    match importance {
        None => {
            for i in 0..SUB {
                w[i] = x[i] * x[i];
            }
        }
        Some((importance, sigma2)) => {
            for i in 0..SUB {
                w[i] = importance[i] * (sigma2 + x[i] * x[i]).sqrt();
            }
        }
    }
}

/// Twice the mean square of a block.
#[simd]
pub fn sigma2<S: Simd, const N: usize>(simd: S, x: &[S::f32s; N]) -> S::f32s {
    sum_of_squares(simd, x) * S::f32s::splat(simd, 2.0 / N as f32)
}

/// `1 / scale`, or 0 if the scale is 0; adds to `wild` if that is infinite.
#[simd]
pub fn inverse<S: Simd>(simd: S, scale: S::f32s, wild: &mut S::mask32s) -> S::f32s {
    let zero = S::f32s::splat(simd, 0.0);
    let inverse = scale.simd_eq(zero).select(zero, S::f32s::splat(simd, 1.0) / scale);
    *wild |= !inverse.abs().simd_lt(S::f32s::splat(simd, f32::INFINITY));
    inverse
}

/// The scales of a vector of sub-blocks; adds its wild lanes to `wild`.
#[simd]
pub fn sub_scale<S: Simd>(simd: S, x: &[S::f32s; SUB], w: &[S::f32s; SUB], wild: &mut S::mask32s) -> S::f32s {
    let splat = |value: f32| S::f32s::splat(simd, value);
    let zero = splat(0.0);
    let (max, magnitude) = largest(simd, x);
    let empty = magnitude.simd_lt(splat(SMALLEST_GROUP));
    let first = f32::from(IQ4_VALUES[0]);
    // The first candidate maps the value of largest magnitude to +127, the others to between -134 and -120.
    let opposite = splat(1.0) / (-max / splat(first));
    let mut inv_scales = [zero; 2 * MIDDLE + 1];
    for (step, inv_scale) in inv_scales.iter_mut().enumerate() {
        *inv_scale = splat(step as f32 - MIDDLE as f32 + first) / max;
    }

    // The sums of the first candidate, and for all others the contribution of each element to the sums in
    // either case.
    let mut middles = [zero; SUB];
    // For either neighbor, `w*q*x` and `w*q*q`.
    let (mut lower, mut upper) = ([[zero; 2]; SUB], [[zero; 2]; SUB]);
    let (mut sum_qx, mut sum_q2) = (zero, zero);
    for i in 0..SUB {
        let q = opposite * x[i];
        // The upper of two equally near values is taken.
        let near = cell(simd, q);
        let q = q.simd_ge(near.middle).select(near.upper, near.lower);
        let wq = w[i] * q;
        sum_qx += wq * x[i];
        sum_q2 += wq * q;

        let cell = cell(simd, inv_scales[MIDDLE] * x[i]);
        middles[i] = cell.middle;
        for (products, q) in [(&mut lower[i], cell.lower), (&mut upper[i], cell.upper)] {
            let wq = w[i] * q;
            *products = [wq * x[i], wq * q];
        }
    }

    // Infinity or NaN anywhere shows in this sum.
    *wild |= !empty & !sum_qx.abs().simd_lt(splat(f32::INFINITY));
    // `sum w (x - d q)^2` is least at `d = sum w q x / sum w q^2`; the best candidate has the largest
    // `(sum w q x)^2 / sum w q^2`.
    let mut scale = sum_q2.simd_gt(zero).select(sum_qx / sum_q2, zero);
    let mut best = scale * sum_qx;
    for inv_scales in inv_scales.as_chunks::<SIDES>().0 {
        // Adds one of two products; five candidates in parallel, to hide latency.
        let (mut sums_qx, mut sums_q2) = ([zero; SIDES], [zero; SIDES]);
        for i in 0..SUB {
            for c in 0..SIDES {
                let above = (inv_scales[c] * x[i]).simd_ge(middles[i]);
                sums_qx[c] += above.select(upper[i][0], lower[i][0]);
                sums_q2[c] += above.select(upper[i][1], lower[i][1]);
            }
        }
        for c in 0..SIDES {
            let (sum_qx, sum_q2) = (sums_qx[c], sums_q2[c]);
            let better = sum_q2.simd_gt(zero) & (sum_qx * sum_qx).simd_gt(best * sum_q2);
            scale = better.select(sum_qx / sum_q2, scale);
            best = better.select(scale * sum_qx, best);
        }
    }
    empty.select(zero, scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lower table index of a value's cell, found like in [`cell`].
    fn cell_of(value: f32) -> usize {
        let size = value.abs().min(LAST);
        let cells = (size * (SLOPE - BEND * size)).copysign(value);
        ((((cells + 7.5) + MAGIC).to_bits() - MAGIC.to_bits()) as usize).min(14)
    }

    #[test]
    fn one_cell_serves_all_candidates() {
        let middle = |index: usize| (f32::from(IQ4_VALUES[index]) + f32::from(IQ4_VALUES[index + 1])) / 2.0;
        for thousandth in -200_000i32..=200_000 {
            let value = thousandth as f32 / 1000.0;
            let index = cell_of(value);
            // Slightly more than (127 + 7) / 127 and (127 - 7) / 127.
            for candidate in [1.056 * value, 0.944 * value] {
                assert!(index == 0 || candidate > middle(index - 1), "{value} {index}");
                assert!(index == 14 || candidate < middle(index + 1), "{value} {index}");
            }
        }
    }
}
