//! The split search of IQ1_M, one sub-block per lane.

use fearless_simd::{Simd, prelude::*};
use fearless_simd_macros::simd;

use super::scalar::{SMALLEST_GROUP, SUB};
use crate::{
    iq_fit::ternary::{
        DOWN, UP,
        split::{MAX_TAKEN, START},
    },
    lanes::MAX_LANES,
};

/// The shifts of the levels: up, down.
const SHIFTS: [[f32; 4]; 2] = [UP, DOWN];

/// Number of second boundaries per bound.
const STRETCH: usize = 6;
/// Number of stretches of boundaries that follow a first one.
const STRETCHES: usize = (SUB + 1).div_ceil(STRETCH);
/// Rounds of [`reachable_score`].
const ROUNDS: usize = 3;

/// Sums of all splits that depend on only one boundary; `[half of the sub-block]`.
pub struct Sums<F> {
    /// Products of weights with values, and weights, in ascending order of the values: `(rank, lane)`.
    /// Elements of the other half are zero.
    sorted: [[[f32; SUB * MAX_LANES]; 2]; 2],
    /// `w*x` below a boundary.
    below_x: [[F; SUB + 1]; 2],
    /// `w*q*q` determined by the first boundary, up and down.
    first_q2: [[[F; SUB + 1]; 2]; 2],
    /// `w*q*q` determined by the second boundary.
    second_q2: [[[F; SUB + 1]; 2]; 2],
    /// `w*x` of a half, and `w`.
    totals: [[F; 2]; 2],
}

impl<F: Copy> Sums<F> {
    pub fn new<S: Simd<f32s = F>>(simd: S) -> Sums<F>
    where
        F: SimdBase<S, Element = f32>,
    {
        let zeros = [F::splat(simd, 0.0); SUB + 1];
        Sums {
            sorted: [[[0.0; SUB * MAX_LANES]; 2]; 2],
            below_x: [zeros; 2],
            first_q2: [[zeros; 2]; 2],
            second_q2: [[zeros; 2]; 2],
            totals: [[zeros[0]; 2]; 2],
        }
    }
}

pub struct Split<F, U> {
    /// The scale; may be negative.
    pub scale: F,
    /// Number of low values; from bit 8 on the number of low or middle values, from bit 16 on the shift.
    pub split: U,
}

#[simd]
fn add_up<S: Simd>(
    simd: S,
    values: &[S::f32s; SUB],
    weights: &[S::f32s; SUB],
    ranks: &[S::u32s; SUB],
    sums: &mut Sums<S::f32s>,
) {
    let lanes = S::f32s::LEN;
    let splat = |value: f32| S::f32s::splat(simd, value);
    sums.sorted = [[[0.0; SUB * MAX_LANES]; 2]; 2];
    for i in 0..SUB {
        // In ascending order, per half: elements of the other half are replaced by zero, which changes no
        // sum.
        let [sorted_x, sorted_w] = &mut sums.sorted[i / 8];
        let product = weights[i] * values[i];
        let (rank, weight, product) = (ranks[i].as_slice(), weights[i].as_slice(), product.as_slice());
        for lane in 0..lanes {
            let at = (rank[lane] as usize * lanes + lane) % (SUB * MAX_LANES);
            sorted_w[at] = weight[lane];
            sorted_x[at] = product[lane];
        }
    }
    for half in 0..2 {
        let [sorted_x, sorted_w] = &sums.sorted[half];
        let mut below_w = [splat(0.0); SUB + 1];
        for rank in 0..SUB {
            let x = S::f32s::from_slice(simd, &sorted_x[rank * lanes..][..lanes]);
            sums.below_x[half][rank + 1] = sums.below_x[half][rank] + x;
            below_w[rank + 1] = below_w[rank] + S::f32s::from_slice(simd, &sorted_w[rank * lanes..][..lanes]);
        }
        // `sum w q^2` of a half is `q2^2 W + (q0^2 - q1^2) W(first) + (q1^2 - q2^2) W(second)`, where `W(b)`
        // is the weight below boundary `b`: split into what depends on each boundary.
        let total = below_w[SUB];
        sums.totals[half] = [sums.below_x[half][SUB], total];
        for (shift, q) in SHIFTS.iter().enumerate() {
            let all = total * splat(q[2]) * splat(q[2]);
            for rank in 0..SUB + 1 {
                let first = below_w[rank] * splat(q[0] * q[0] - q[1] * q[1]);
                sums.first_q2[shift][half][rank] = all + first;
                sums.second_q2[shift][half][rank] = below_w[rank] * splat(q[1] * q[1] - q[2] * q[2]);
            }
        }
    }
}

/// A lower bound of the best score: the score of some split, after a few rounds of choosing levels for a
/// scale and a scale for levels. Halves with different shifts still share the boundaries, which lie in
/// between.
#[simd]
fn reachable_score<S: Simd>(
    simd: S,
    values: &[S::f32s; SUB],
    weights: &[S::f32s; SUB],
    totals: &[[S::f32s; 2]; 2],
) -> S::f32s {
    // Boundaries for both up, one up, and both down, at a scale of one.
    const BOUNDS: [[f32; 2]; 3] = [[-0.375, 0.625], [-0.5, 0.5], [-0.625, 0.375]];
    let splat = |value: f32| S::f32s::splat(simd, value);
    let zero = splat(0.0);
    // Lloyd's iteration like in IQ1_S, for each number of halves that are moved down.
    let mut size = zero;
    let mut products = [zero; SUB];
    for i in 0..SUB {
        products[i] = weights[i] * values[i];
        size += products[i] * values[i];
    }
    let start = (size / (totals[0][1] + totals[1][1])).sqrt() * splat(1.1);
    let mut scales = [start; 3];
    let mut score = zero;
    for _ in 0..ROUNDS {
        for (n_down, bounds) in BOUNDS.into_iter().enumerate() {
            let bounds = bounds.map(
                #[inline(always)]
                |bound| scales[n_down] * splat(bound),
            );
            // [half][bound] sums above the boundary.
            let mut above = [[[zero; 2]; 2]; 2];
            for i in 0..SUB {
                for bound in 0..2 {
                    let is_above = values[i].simd_gt(bounds[bound]);
                    let [x, w] = above[i / 8][bound];
                    above[i / 8][bound] =
                        [is_above.select(x + products[i], x), is_above.select(w + weights[i], w)];
                }
            }
            // The shifts of the two halves for this number.
            let pairs: &[(usize, usize)] = [&[(0, 0)][..], &[(0, 1), (1, 0)], &[(1, 1)]][n_down];
            let mut best = zero;
            for &(low, high) in pairs {
                let low = sums_of_half(simd, low, totals[0], above[0]);
                let high = sums_of_half(simd, high, totals[1], above[1]);
                let sum_qx = low[0] + high[0];
                let scale = sum_qx / (low[1] + high[1]);
                let this = scale * sum_qx;
                scales[n_down] = this.simd_gt(best).select(scale, scales[n_down]);
                best = best.max(this);
            }
            score = score.max(best);
        }
    }
    score
}

/// `w*q*x` and `w*q*q` of a half, from its totals and the sums above each boundary.
#[inline(always)]
fn sums_of_half<S: Simd>(
    simd: S,
    shift: usize,
    total: [S::f32s; 2],
    above: [[S::f32s; 2]; 2],
) -> [S::f32s; 2] {
    let splat = |value: f32| S::f32s::splat(simd, value);
    let q = SHIFTS[shift];
    let [first, second] = above;
    [
        total[0] * splat(q[0]) + first[0] + second[0],
        total[1] * splat(q[0] * q[0])
            + first[1] * splat(q[1] * q[1] - q[0] * q[0])
            + second[1] * splat(q[2] * q[2] - q[1] * q[1]),
    ]
}

/// The split that the scalar search finds. Lanes with possibly another result become wild.
#[simd]
pub fn best_split<S: Simd>(
    simd: S,
    values: &[S::f32s; SUB],
    weights: &[S::f32s; SUB],
    ranks: &[S::u32s; SUB],
    sums: &mut Sums<S::f32s>,
    wild: &mut u64,
) -> Split<S::f32s, S::u32s> {
    let splat = |value: f32| S::f32s::splat(simd, value);
    let zero = splat(0.0);
    // Maximizes `score = (sum w q x)^2 / sum w q^2` over the four pairs of shifts and all boundaries.
    add_up(simd, values, weights, ranks, sums);
    let (mut largest, mut least_weight, mut size) = (zero, weights[0], zero);
    for i in 0..SUB {
        largest = largest.max(values[i].abs());
        least_weight = least_weight.min(weights[i]);
        size += (weights[i] * values[i]).abs();
    }
    let total_w = sums.totals[0][1] + sums.totals[1][1];
    // The following is valid for numbers in this range; comparisons with NaN are false. Sums of `w*q*q` are
    // then positive: a 64th of the weights is far above their rounding.
    let tame = largest.simd_ge(splat(SMALLEST_GROUP))
        & largest.simd_lt(splat(1e9))
        & least_weight.simd_ge(zero)
        & total_w.simd_gt(splat(1e-25))
        & total_w.simd_lt(splat(1e9));

    let mut best_score = reachable_score(simd, values, weights, &sums.totals) * splat(START);
    let mut best_scale = zero;
    let mut split = S::u32s::splat(simd, 0);
    let mut taken = S::u32s::splat(simd, 0);

    // For a stretch of second boundaries, the maximum and minimum of `w*x` and the minimum of `w*q*q` that
    // such a boundary determines, with a margin for rounding. The margin of 1e-5 is derived like in IQ1_S,
    // here with 11 additions of at most 3.2 * size, which is 2.1e-6 relatively.
    let (margin_x, margin_w) = (size * splat(1e-5), total_w * splat(1e-5));
    let mut most = [zero; STRETCHES];
    let mut least = [zero; STRETCHES];
    let mut least_q2 = [[zero; STRETCHES]; 4];
    for stretch in 0..STRETCHES {
        let end = (STRETCH * (stretch + 1)).min(SUB + 1);
        let (mut above, mut below) = (splat(f32::MIN), splat(f32::MAX));
        for second in STRETCH * stretch..end {
            let part = sums.below_x[0][second] + sums.below_x[1][second];
            above = above.max(zero - part);
            below = below.min(zero - part);
        }
        most[stretch] = above + margin_x;
        least[stretch] = below - margin_x;
        for shift in 0..4 {
            // The farther the second boundary, the smaller; weights are not negative.
            let [low, high] = [&sums.second_q2[shift / 2][0], &sums.second_q2[shift % 2][1]];
            least_q2[shift][stretch] = low[end - 1] + high[end - 1] - margin_w;
        }
    }

    // `sum w q x` of a half is `q2 X - X(first) - X(second)`, because neighboring levels are 1 apart.
    let total_qx = [0, 1].map(
        #[inline(always)]
        |shift: usize| {
            let top = splat(SHIFTS[shift][2]);
            [sums.totals[0][0] * top, sums.totals[1][0] * top]
        },
    );
    for first in 0..SUB + 1 {
        let first_x = [sums.below_x[0][first], sums.below_x[1][first]];
        let first_q2 = [0, 1].map(
            #[inline(always)]
            |shift: usize| [sums.first_q2[shift][0][first], sums.first_q2[shift][1][first]],
        );
        let below = first_x[0] + first_x[1];
        let mut part_x = [zero; 4];
        let mut part_w = [zero; 4];
        for shift in 0..4 {
            part_x[shift] = total_qx[shift / 2][0] + total_qx[shift % 2][1] - below;
            part_w[shift] = first_q2[shift / 2][0] + first_q2[shift % 2][1];
        }
        for stretch in first / STRETCH..STRETCHES {
            let mut hopeful = S::mask32s::splat(simd, false);
            for shift in 0..4 {
                // Like in IQ1_S: the maximum of one sum, and the minimum of the other.
                let farthest = (part_x[shift] + most[stretch]).max(zero - part_x[shift] - least[stretch]);
                let least_sum = part_w[shift] + least_q2[shift][stretch];
                hopeful |= (farthest * farthest).simd_gt(best_score * least_sum);
            }
            if !hopeful.any_true() {
                continue;
            }
            let seconds = (STRETCH * stretch).max(first)..(STRETCH * (stretch + 1)).min(SUB + 1);
            for second in seconds {
                let mut qx = [[zero; 2]; 2];
                let mut q2 = [[zero; 2]; 2];
                for half in 0..2 {
                    // In the order of the scalar code: terms below both boundaries first.
                    let inner = first_x[half] + sums.below_x[half][second];
                    for shift in 0..2 {
                        qx[shift][half] = total_qx[shift][half] - inner;
                        q2[shift][half] = first_q2[shift][half] + sums.second_q2[shift][half][second];
                    }
                }
                let mut sum_qx = [zero; 4];
                let mut sum_q2 = [zero; 4];
                let mut better = S::mask32s::splat(simd, false);
                for shift in 0..4 {
                    sum_qx[shift] = qx[shift / 2][0] + qx[shift % 2][1];
                    sum_q2[shift] = q2[shift / 2][0] + q2[shift % 2][1];
                    better |= (sum_qx[shift] * sum_qx[shift]).simd_gt(best_score * sum_q2[shift]);
                }
                if better.any_true() {
                    for shift in 0..4 {
                        let better = (sum_qx[shift] * sum_qx[shift]).simd_gt(best_score * sum_q2[shift]);
                        let scale = sum_qx[shift] / sum_q2[shift];
                        best_scale = better.select(scale, best_scale);
                        best_score = better.select(scale * sum_qx[shift], best_score);
                        let this = first | second << 8 | shift << 16;
                        split = better.select(S::u32s::splat(simd, this as u32), split);
                        taken = better.select(taken + 1, taken);
                    }
                }
            }
        }
    }
    // See IQ1_S.
    let sure = tame
        & (best_score * total_w).simd_gt(splat(1e-30))
        & taken.simd_lt(S::u32s::splat(simd, MAX_TAKEN))
        & taken.simd_gt(S::u32s::splat(simd, 0));
    *wild |= !sure.to_bitmask();
    Split { scale: best_scale, split }
}
