//! Shared scale searches: given the values and weights of one (sub-)block, find the scale (and minimum) whose
//! rounded levels have the least error.
//!
//! Each function repeats the order of the reference's floating-point operations exactly; sums run from the
//! first element to the last. Splitting a loop in two (levels first, then sums) does not reorder the
//! operations of a chain and lets the first half be vectorized.
//!
//! Source: `make_qx_quants`, `make_q3_quants`, `make_qkx2_quants`, `make_qkx3_quants` and `make_qp_quants`
//! in `ggml/src/ggml-quants.c`.

use crate::round::{nearest_int, round_away, round_away_to_byte};

/// A (sub-)block with a smaller largest magnitude counts as zero (`GROUP_MAX_EPS`).
pub const SMALLEST_GROUP: f32 = 1e-15;

/// The candidate scales of [`scale_and_min`]: candidate `i` of `0..=n_steps` lets the range of the values
/// span `first + step * i + max_level` levels.
#[derive(Debug, Clone, Copy)]
pub struct Candidates {
    /// Offset of the first candidate, in levels.
    pub first: f32,
    /// Difference between two candidates, in levels.
    pub step: f32,
    /// Number of candidates minus one.
    pub n_steps: u8,
}

/// The candidates of every search with importance weights.
pub const WEIGHTED: Candidates = Candidates { first: -0.9, step: 0.05, n_steps: 36 };

/// The sum of squares, first to last.
#[inline(always)]
pub fn sum_of_squares(values: &[f32]) -> f32 {
    values.iter().fold(0.0, |sum, x| sum + x * x)
}

/// The sum, first to last.
#[inline(always)]
pub fn sum(values: &[f32]) -> f32 {
    values.iter().fold(0.0, |sum, x| sum + x)
}

/// The mean of the squares of a row.
#[inline(never)]
pub fn mean_square(row: &[f32]) -> f32 {
    sum_of_squares(row) / row.len() as f32
}

/// The weights of a search with importance weights: `importance * sqrt(sigma2 + x^2)`.
#[inline(always)]
pub fn importance_weights<const N: usize>(values: &[f32; N], importance: &[f32; N], sigma2: f32) -> [f32; N] {
    std::array::from_fn(|i| importance[i] * (sigma2 + values[i] * values[i]).sqrt())
}

/// The extreme of some numbers by `better(new, old)`, ignoring NaN. The choice between equals is unspecified,
/// so that eight numbers can be compared at once.
#[inline(always)]
fn extreme(numbers: impl Iterator<Item = [f32; 8]>, start: f32, better: impl Fn(f32, f32) -> bool) -> f32 {
    let mut lanes = [start; 8];
    for numbers in numbers {
        for i in 0..8 {
            lanes[i] = if better(numbers[i], lanes[i]) { numbers[i] } else { lanes[i] };
        }
    }
    lanes.into_iter().fold(start, |best, x| if better(x, best) { x } else { best })
}

/// The value of largest magnitude, the first of equals, with its sign; and that magnitude. Skips NaN.
#[inline(always)]
pub fn largest<const N: usize>(values: &[f32; N]) -> (f32, f32) {
    const { assert!(N.is_multiple_of(8)) };
    // The magnitude first, in eight lanes; then the first value that has it, for its sign.
    let magnitudes = values.as_chunks::<8>().0.iter().map(|values| values.map(f32::abs));
    let magnitude = extreme(magnitudes, 0.0, |new, old| new > old);
    if magnitude == 0.0 {
        return (0.0, 0.0);
    }
    (values.iter().copied().find(|x| x.abs() == magnitude).unwrap_or(0.0), magnitude)
}

/// The scale that maps the largest magnitude to `top`, and the low bytes of the values in steps of the scale,
/// halves rounded away from zero.
///
/// The reference finds the largest magnitude with `MAX(largest, magnitude)`, which forgets earlier values at
/// a NaN; only then can a value be out of reach of the quick rounding.
#[inline(always)]
pub fn steps_of_largest<const N: usize>(values: &[f32; N], top: f32) -> (f32, [u8; N]) {
    // Magnitudes are ordered like their bits, with NaN above all numbers.
    let bits = values.iter().fold(0, |largest, x| largest.max(x.to_bits() & 0x7fff_ffff));
    let has_nan = bits > f32::INFINITY.to_bits();
    let magnitude = if has_nan {
        values.iter().fold(0.0, |largest, x| if largest > x.abs() { largest } else { x.abs() })
    } else {
        f32::from_bits(bits)
    };
    let scale = magnitude / top;
    let inv_scale = if scale != 0.0 { 1.0 / scale } else { 0.0 };
    if has_nan {
        return (scale, values.map(|x| round_away(x * inv_scale) as u8));
    }
    (scale, values.map(|x| round_away_to_byte(x * inv_scale)))
}

/// The smallest and the largest value. Skips NaN; of two zeros it takes the first.
#[inline(always)]
pub fn range<const N: usize>(values: &[f32; N]) -> (f32, f32) {
    const { assert!(N.is_multiple_of(8)) };
    let chunks = || values.as_chunks::<8>().0.iter().copied();
    let first_zero = |extreme: f32| {
        if extreme == 0.0 { values.iter().copied().find(|x| *x == 0.0).unwrap_or(extreme) } else { extreme }
    };
    let min = extreme(chunks(), f32::MAX, |new, old| new < old);
    let max = extreme(chunks(), -f32::MAX, |new, old| new > old);
    (first_zero(min), first_zero(max))
}

/// Fits `x = scale * level + min` with levels in `0..=max_level` and `min <= 0`; returns `(scale, -min)`.
///
/// The error is the weighted sum of squares, or of magnitudes with `MAGNITUDES`. An accepted candidate
/// changes `min`, from which the next candidates are computed: the search is a chain.
///
/// Source: `make_qkx2_quants` and `make_qkx3_quants`, which with weights are the same search.
#[inline(always)]
pub fn scale_and_min<const N: usize, const MAGNITUDES: bool>(
    values: &[f32; N],
    weights: &[f32; N],
    max_level: u8,
    candidates: Candidates,
    levels: &mut [u8; N],
) -> (f32, f32) {
    // The initial range, and two sums that do not depend on the candidate: `W = sum w` and `X = sum w x`.
    let (mut min, mut max) = (values[0], values[0]);
    let mut sum_w = weights[0];
    let mut sum_x = sum_w * values[0];
    for i in 1..N {
        if values[i] < min {
            min = values[i];
        }
        if values[i] > max {
            max = values[i];
        }
        sum_w += weights[i];
        sum_x += weights[i] * values[i];
    }
    // Files store `-min` as a positive number, so the levels begin at zero or below.
    if min > 0.0 {
        min = 0.0;
    }
    // Only if all values equal the minimum; level 0 means the minimum.
    if max <= min {
        *levels = [0; N];
        return (0.0, -min);
    }

    let top = f32::from(max_level);
    let level_of = |inv_scale: f32, min: f32, i: usize| {
        nearest_int(inv_scale * (values[i] - min)).clamp(0, i32::from(max_level)) as f32
    };
    // The objective: `E(d, m) = sum w (d q + m - x)^2` over the N elements, or `sum w |d q + m - x|`.
    let error_of = |level: &[f32; N], scale: f32, min: f32| {
        let errors: [f32; N] = std::array::from_fn(|i| {
            let miss = scale * level[i] + min - values[i];
            weights[i] * if MAGNITUDES { miss.abs() } else { miss * miss }
        });
        sum(&errors)
    };

    // Initial error: the range mapped exactly to the levels, without a fit.
    let inv_scale = top / (max - min);
    let mut scale = 1.0 / inv_scale;
    let mut best: [f32; N] = std::array::from_fn(|i| level_of(inv_scale, min, i));
    let mut best_error = error_of(&best, scale, min);
    // A candidate rounds with the range stretched over a few more or fewer levels, then solves for the best
    // `d` and `m` for these levels.
    for step in 0..=candidates.n_steps {
        let inv_scale = (candidates.first + candidates.step * f32::from(step) + top) / (max - min);
        let trial: [f32; N] = std::array::from_fn(|i| level_of(inv_scale, min, i));
        // `L = sum w q`, `Q = sum w q^2`, `C = sum w q x`.
        let (mut sum_l, mut sum_l2, mut sum_xl) = (0.0, 0.0, 0.0);
        for i in 0..N {
            let wl = weights[i] * trial[i];
            sum_l += wl;
            sum_l2 += wl * trial[i];
            sum_xl += wl * values[i];
        }
        // `dE/dd = dE/dm = 0` is the system `Q d + L m = C`, `L d + W m = X`. Cramer: with `D = W Q - L^2` it
        // is `d = (W C - X L) / D` and `m = (Q X - L C) / D`. `D` is positive unless all levels are equal.
        let determinant = sum_w * sum_l2 - sum_l * sum_l;
        if determinant > 0.0 {
            let mut this_scale = (sum_w * sum_xl - sum_x * sum_l) / determinant;
            let mut this_min = (sum_l2 * sum_x - sum_l * sum_xl) / determinant;
            // The best `m` within bounds is then 0, and the best `d` for it is `C / Q`.
            if this_min > 0.0 {
                this_min = 0.0;
                this_scale = sum_xl / sum_l2;
            }
            let error = error_of(&trial, this_scale, this_min);
            if error < best_error {
                best = trial;
                best_error = error;
                scale = this_scale;
                min = this_min;
            }
        }
    }
    for i in 0..N {
        levels[i] = best[i] as i32 as u8;
    }
    (scale, -min)
}

/// Fits `x = scale * level` with levels in `-half..half`, stored as `level + half`.
///
/// The 19 candidate scales are independent: four at a time are summed in parallel, each in its own order, and
/// then compared in the reference's order, the middle one first.
///
/// Source: `make_qx_quants` with `rmse_type` 1; whose default weights are the squares.
#[inline(always)]
pub fn signed<const N: usize>(values: &[f32; N], weights: &[f32; N], half: u8, levels: &mut [u8; N]) -> f32 {
    /// Steps of the candidates; the last is repeated to make five times four.
    const STEPS: [f32; 20] = [
        0.0, -9.0, -8.0, -7.0, -6.0, -5.0, -4.0, -3.0, -2.0, -1.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0,
        9.0, 9.0,
    ];
    let (max, magnitude) = largest(values);
    if magnitude < SMALLEST_GROUP {
        *levels = [0; N];
        return 0.0;
    }
    let half_level = i32::from(half);
    let level_of = |inv_scale: f32, x: f32| nearest_int(inv_scale * x).clamp(-half_level, half_level - 1);
    // Step `c` maps the value of largest magnitude to `-(half + c / 10)`: the negative side has one level
    // more.
    let inv_scales = STEPS.map(|step| -(f32::from(half) + 0.1 * step) / max);
    let weighted: [f32; N] = std::array::from_fn(|i| weights[i] * values[i]);

    // For given levels `q` the error `sum w (x - d q)^2` is least at `d = lx / l2`, with `lx = sum w x q` and
    // `l2 = sum w q^2`, and the remaining error is `sum w x^2 - lx^2 / l2`. So the best candidate has the
    // largest `lx^2 / l2`.
    let (mut sums_lx, mut sums_l2) = ([0.0; 20], [0.0; 20]);
    let groups = sums_lx.as_chunks_mut::<4>().0.iter_mut().zip(sums_l2.as_chunks_mut::<4>().0);
    for (inv_scales, (sums_lx, sums_l2)) in inv_scales.as_chunks::<4>().0.iter().zip(groups) {
        for i in 0..N {
            for c in 0..4 {
                let level = level_of(inv_scales[c], values[i]) as f32;
                sums_lx[c] += weighted[i] * level;
                sums_l2[c] += weights[i] * level * level;
            }
        }
    }

    let mut chosen = inv_scales[0];
    let mut scale = if sums_l2[0] != 0.0 { sums_lx[0] / sums_l2[0] } else { 0.0 };
    let mut best = scale * sums_lx[0];
    // `best` is `lx^2 / l2` of the chosen one; the comparison is multiplied by `l2`, like in the reference.
    for c in 1..19 {
        let (sum_lx, sum_l2) = (sums_lx[c], sums_l2[c]);
        if sum_l2 > 0.0 && sum_lx * sum_lx > best * sum_l2 {
            chosen = inv_scales[c];
            scale = sum_lx / sum_l2;
            best = scale * sum_lx;
        }
    }
    *levels = values.map(|x| (level_of(chosen, x) + half_level) as u8);
    scale
}

/// Fits `x = scale * level` with levels in `-half..half`, stored as `level + half`, weighted by squares:
/// rounds once, then moves single levels while that helps, in at most five sweeps.
///
/// Source: `make_q3_quants` with `do_rmse`.
#[inline(always)]
pub fn signed_by_descent<const N: usize>(values: &[f32; N], half: u8, levels: &mut [u8; N]) -> f32 {
    let (max, magnitude) = largest(values);
    if magnitude < SMALLEST_GROUP {
        *levels = [0; N];
        return 0.0;
    }
    let half_level = i32::from(half);
    let clamp = |level: i32| level.clamp(-half_level, half_level - 1);
    // Like in [`signed`], maximizes `lx^2 / l2`, with the squares as weights. The start rounds with the
    // largest magnitude at `-half`.
    let inv_scale = -f32::from(half) / max;
    let weights: [f32; N] = std::array::from_fn(|i| values[i] * values[i]);
    let weighted: [f32; N] = std::array::from_fn(|i| weights[i] * values[i]);
    let mut level: [f32; N] = std::array::from_fn(|i| clamp(nearest_int(inv_scale * values[i])) as f32);
    let (mut sum_lx, mut sum_l2) = (0.0, 0.0);
    for i in 0..N {
        sum_lx += weighted[i] * level[i];
        sum_l2 += weights[i] * level[i] * level[i];
    }
    // A sweep visits the elements in order. Without the element, the sums are `lx` and `l2`, the best scale
    // for the others is `lx / l2`, and the element's level at this scale is `x l2 / lx`.
    for _ in 0..5 {
        let mut changed = false;
        for i in 0..N {
            let mut lx = sum_lx - weighted[i] * level[i];
            // A scale of zero or less gives no level.
            if lx > 0.0 {
                let mut l2 = sum_l2 - weights[i] * level[i] * level[i];
                let new_level = clamp(nearest_int(values[i] * l2 / lx)) as f32;
                if new_level != level[i] {
                    lx += weighted[i] * new_level;
                    l2 += weights[i] * new_level * new_level;
                    // `lx^2 / l2` grew, multiplied out.
                    if l2 > 0.0 && lx * lx * sum_l2 > sum_lx * sum_lx * l2 {
                        (level[i], sum_lx, sum_l2) = (new_level, lx, l2);
                        changed = true;
                    }
                }
            }
        }
        if !changed {
            break;
        }
    }
    for i in 0..N {
        levels[i] = (level[i] as i32 + half_level) as u8;
    }
    if sum_l2 > 0.0 { sum_lx / sum_l2 } else { 0.0 }
}

/// Fits `x = scale * level` with levels in `0..=max_level` for values that are not negative: nine candidate
/// scales, then single levels are moved while that helps, in at most five sweeps.
///
/// Like in the reference, levels are stored in a byte between the steps: a negative one wraps around.
///
/// Source: `make_qp_quants`.
#[inline(always)]
pub fn unsigned<const N: usize>(
    values: &[f32; N],
    weights: &[f32; N],
    max_level: u8,
    levels: &mut [u8; N],
) -> f32 {
    let mut max = 0.0;
    for &x in values {
        max = if max > x { max } else { x };
    }
    if max < SMALLEST_GROUP {
        *levels = [0; N];
        return 0.0;
    }
    let top = i32::from(max_level);
    let mut inv_scale = f32::from(max_level) / max;
    // `sum w (x - d q)^2`, here with the unfitted scale `d = 1 / inv_scale`.
    let error_of = |scale: f32, level: &[f32; N]| {
        let errors: [f32; N] = std::array::from_fn(|i| {
            let miss = values[i] - scale * level[i];
            weights[i] * miss * miss
        });
        sum(&errors)
    };
    // Stored in bytes, so a negative level wraps around. No upper bound is needed: the largest value gets
    // `max_level`.
    let first: [f32; N] = std::array::from_fn(|i| f32::from(nearest_int(inv_scale * values[i]) as u8));
    let mut best_error = error_of(1.0 / inv_scale, &first);
    for step in (-4i8..=4).filter(|step| *step != 0) {
        let trial_inv_scale = (0.1 * f32::from(step) + f32::from(max_level)) / max;
        let trial = std::array::from_fn(|i| nearest_int(trial_inv_scale * values[i]).min(top) as f32);
        let error = error_of(1.0 / trial_inv_scale, &trial);
        if error < best_error {
            best_error = error;
            inv_scale = trial_inv_scale;
        }
    }

    // From the best of the nine on, single levels increase `lx^2 / l2`, like in [`signed_by_descent`].
    let (mut sum_lx, mut sum_l2) = (0.0, 0.0);
    for i in 0..N {
        let level = nearest_int(inv_scale * values[i]).min(top);
        levels[i] = level as u8;
        sum_lx += weights[i] * values[i] * level as f32;
        sum_l2 += weights[i] * level as f32 * level as f32;
    }
    for _ in 0..5 {
        let mut changed = false;
        for i in 0..N {
            let (w, level) = (weights[i], f32::from(levels[i]));
            let mut lx = sum_lx - w * values[i] * level;
            let mut l2 = sum_l2 - w * level * level;
            if lx > 0.0 && l2 > 0.0 {
                let new_level = nearest_int(values[i] * l2 / lx).min(top);
                if new_level != i32::from(levels[i]) {
                    lx += w * values[i] * new_level as f32;
                    l2 += w * new_level as f32 * new_level as f32;
                    if lx * lx * sum_l2 > sum_lx * sum_lx * l2 {
                        (levels[i], sum_lx, sum_l2) = (new_level as u8, lx, l2);
                        changed = true;
                    }
                }
            }
        }
        if !changed {
            break;
        }
    }
    if sum_l2 > 0.0 { sum_lx / sum_l2 } else { 0.0 }
}
