//! IQ1_S, one block per lane.

use fearless_simd::{Simd, prelude::*};
use fearless_simd_macros::simd;

use super::{
    BYTES,
    scalar::{self, HAS_WEIGHTS, SMALLEST_GROUP, SUB},
};
use crate::{
    Rows,
    block::array_at,
    iq_fit::{
        SUPER,
        ternary::{
            DELTA, DOWN, UP,
            points::{self, Group, Neighbours},
            split::{self, MAX_TAKEN, START},
        },
    },
    lanes::{MAX_LANES, encode_units, half, nearest_level, sum_of_squares},
};

const WORDS: usize = BYTES.div_ceil(4);

/// Number of second boundaries per bound.
const STRETCH: usize = 8;
/// Number of stretches of boundaries that follow a first one.
const STRETCHES: usize = (SUB + 1).div_ceil(STRETCH);

#[simd]
pub fn encode<S: Simd>(simd: S, rows: Rows<'_>, out: &mut [u8]) {
    let lists = Neighbours::iq1();
    let mut sums = Sums::new(simd);
    encode_units::<S, SUPER, BYTES, WORDS>(
        simd,
        rows,
        out,
        #[inline(always)]
        |_, x, importance, words| {
            let importance = importance.expect(HAS_WEIGHTS);
            encode_unit(simd, lists, x, importance, &mut sums, words)
        },
        scalar::encode,
    );
}

#[simd]
fn encode_unit<S: Simd>(
    simd: S,
    lists: &Neighbours,
    x: &[S::f32s; SUPER],
    importance: &[S::f32s; SUPER],
    sums: &mut Sums<S::f32s>,
    words: &mut [S::u32s; WORDS],
) -> u64 {
    let splat = |value: f32| S::f32s::splat(simd, value);
    let zero = S::u32s::splat(simd, 0);
    // `w = importance * sqrt(2 mean(x^2) + x^2)`, the mean over the super-block.
    let sigma2 = splat(2.0) * sum_of_squares(simd, x) / splat(SUPER as f32);
    let mut wild = 0;
    let mut scales = [splat(0.0); SUPER / SUB];
    let mut heads = [zero; SUPER / SUB];
    let mut low_bytes = [zero; SUPER / SUB];
    let mut max_scale = splat(0.0);
    for at in 0..SUPER / SUB {
        let values: &[S::f32s; SUB] = array_at(x, SUB * at);
        let importance: &[S::f32s; SUB] = array_at(importance, SUB * at);
        let mut weights = [splat(0.0); SUB];
        for i in 0..SUB {
            weights[i] = importance[i] * (sigma2 + values[i] * values[i]).sqrt();
        }
        let sub = encode_sub(simd, lists, values, &weights, sums, &mut wild);
        scales[at] = sub.scale;
        heads[at] = sub.head;
        low_bytes[at] = sub.low_bytes;
        max_scale = max_scale.max(sub.scale);
    }
    // Scales become odd numbers from 1 to 15 in steps of `d`: `2 * level + 1`. Blocks of zeros, and scales
    // for which `1 / d` would lose bits, are left to the scalar code.
    let d = max_scale / splat(15.0);
    let inverse = splat(1.0) / d;
    wild |= !(max_scale.simd_gt(splat(1e-20)) & max_scale.simd_lt(splat(1e20))).to_bitmask();
    for at in 0..SUPER / SUB {
        let level = nearest_level(simd, splat(0.5) * (inverse * scales[at] - splat(1.0)), 7);
        heads[at] |= level << 12;
    }
    // Two bytes of d, then 32 of indices, then 8 heads of two.
    let (bits, _) = half(simd, d * splat(1.125));
    let mut before = bits;
    for at in 0..SUPER / SUB {
        words[at] = before | (low_bytes[at] << 16);
        before = low_bytes[at] >> 16;
    }
    for at in 0..SUPER / SUB / 2 {
        words[8 + at] = before | (heads[2 * at] << 16);
        before = heads[2 * at + 1];
    }
    words[12] = before;
    wild
}

struct Found<F, U> {
    /// The scale, not negative.
    scale: F,
    /// High bits of the indices, and the shift.
    head: U,
    low_bytes: U,
}

#[simd]
fn encode_sub<S: Simd>(
    simd: S,
    lists: &Neighbours,
    values: &[S::f32s; SUB],
    weights: &[S::f32s; SUB],
    sums: &mut Sums<S::f32s>,
    wild: &mut u64,
) -> Found<S::f32s, S::u32s> {
    let splat = |value: f32| S::f32s::splat(simd, value);
    let (zero, one) = (S::u32s::splat(simd, 0), S::u32s::splat(simd, 1));
    let mut ranks = [one; SUB];
    split::ranks(simd, values, &mut ranks);
    let best = best_split(simd, values, weights, &ranks, sums, wild);

    // A negative scale becomes positive by exchanging low and high and flipping the shift.
    let (first, second) = (best.split & 0xff, (best.split >> 8) & 0xff);
    let flipped = best.scale.simd_lt(splat(0.0));
    let mut scale = best.scale.abs();
    let up = flipped.select((best.split >> 16) ^ 1, best.split >> 16).simd_eq(one);
    let levels: [S::f32s; 3] = [0, 1, 2].map(
        #[inline(always)]
        |level: usize| up.select(splat(UP[level]), splat(DOWN[level])),
    );
    let two = S::u32s::splat(simd, 2);
    let mut codes = [S::u32s::splat(simd, 0); 4];
    for i in 0..SUB {
        // Level 0 below the first boundary, 1 between, 2 above the second.
        let middle = ranks[i].simd_ge(first).select(one, zero);
        let level = middle + ranks[i].simd_ge(second).select(one, zero);
        let level = flipped.select(two - level, level);
        codes[i / 8] |= level << (2 * (i % 8) as u32);
    }
    let mut moved = 0;
    for group in 0..4 {
        let group = Group {
            values: array_at(values, 8 * group),
            weights: array_at(weights, 8 * group),
            scale,
            levels,
            code: &mut codes[group],
        };
        moved |= points::move_to_codebook(simd, lists, group, *wild);
    }
    // If a code was moved, the scale is fitted again.
    let shift = up.select(splat(DELTA - 1.0), splat(-DELTA - 1.0));
    let (mut sum_qx, mut sum_q2) = (splat(0.0), splat(0.0));
    for i in 0..SUB {
        let q = ((codes[i / 8] >> (2 * (i % 8) as u32)) & 3).to_float::<S::f32s>() + shift;
        let weighted = weights[i] * q;
        sum_qx += weighted * values[i];
        sum_q2 += weighted * q;
    }
    let fitted = sum_qx.simd_gt(splat(0.0)) & sum_q2.simd_gt(splat(0.0));
    let fitted = fitted & S::mask32s::from_bitmask(simd, moved);
    scale = fitted.select(sum_qx / sum_q2, scale);

    let mut head = up.select(zero, one << 15);
    let mut low_bytes = zero;
    for group in 0..4 {
        // Lane by lane, because the table has 65536 entries.
        let mut index = one;
        for lane in 0..S::f32s::LEN {
            index.as_mut_slice()[lane] = lists.index(codes[group].as_slice()[lane]);
        }
        low_bytes |= (index & 0xff) << (8 * group as u32);
        head |= (index >> 8) << (3 * group as u32);
    }
    Found { scale, head, low_bytes }
}

/// Sums of all splits that depend on only one boundary.
struct Sums<F> {
    /// Weights and their products with the values, in ascending order of the values: `(rank, lane)`.
    sorted: [[f32; SUB * MAX_LANES]; 2],
    /// Contribution of the middle: for a boundary, the part below it.
    middle: [[F; SUB + 1]; 2],
    /// Part below the first boundary: `[up or down][w*q*x or w*q*q]`.
    low: [[[F; SUB + 1]; 2]; 2],
    high: [[[F; SUB + 1]; 2]; 2],
}

struct Split<F, U> {
    /// The scale; may be negative.
    scale: F,
    /// Number of low values; from bit 8 on the number of low or middle values, at bit 16 whether levels are
    /// moved up.
    split: U,
}

impl<F: Copy> Sums<F> {
    fn new<S: Simd<f32s = F>>(simd: S) -> Sums<F>
    where
        F: SimdBase<S, Element = f32>,
    {
        let zeros = [F::splat(simd, 0.0); SUB + 1];
        Sums {
            sorted: [[0.0; SUB * MAX_LANES]; 2],
            middle: [zeros; 2],
            low: [[zeros; 2]; 2],
            high: [[zeros; 2]; 2],
        }
    }
}

/// Fills the sums, sums of weights and products in ascending order. Returns the lanes in which a power of two
/// could not be factored out of a sum.
#[simd]
fn add_up<S: Simd>(
    simd: S,
    values: &[S::f32s; SUB],
    weights: &[S::f32s; SUB],
    ranks: &[S::u32s; SUB],
    sums: &mut Sums<S::f32s>,
) -> S::mask32s {
    let lanes = S::f32s::LEN;
    let splat = |value: f32| S::f32s::splat(simd, value);
    // In ascending order: each lane writes to the row of its rank.
    let [sorted_w, sorted_x] = &mut sums.sorted;
    for i in 0..SUB {
        let product = weights[i] * values[i];
        let (rank, weight, product) = (ranks[i].as_slice(), weights[i].as_slice(), product.as_slice());
        for lane in 0..lanes {
            let at = (rank[lane] as usize * lanes + lane) % (SUB * MAX_LANES);
            sorted_w[at] = weight[lane];
            sorted_x[at] = product[lane];
        }
    }
    // Sums of the `rank` smallest values, added up in the order of the reference.
    let mut prefix = [[splat(0.0); SUB + 1]; 2];
    for rank in 0..SUB {
        prefix[0][rank + 1] = prefix[0][rank] + S::f32s::from_slice(simd, &sorted_x[rank * lanes..][..lanes]);
        prefix[1][rank + 1] = prefix[1][rank] + S::f32s::from_slice(simd, &sorted_w[rank * lanes..][..lanes]);
    }
    let mut inexact = S::mask32s::splat(simd, false);
    let totals = [prefix[0][SUB], prefix[1][SUB]];
    for rank in 0..SUB + 1 {
        let (x, w) = (prefix[0][rank], prefix[1][rank]);
        // The middle level is an eighth, so its products and their differences are exact.
        sums.middle[0][rank] = x * splat(DELTA);
        sums.middle[1][rank] = w * splat(DELTA * DELTA);
        inexact |= !(sums.middle[0][rank] * splat(8.0)).simd_eq(x);
        inexact |= !(sums.middle[1][rank] * splat(64.0)).simd_eq(w);
        for (shift, q) in [UP, DOWN].into_iter().enumerate() {
            sums.low[shift][0][rank] = x * splat(q[0]);
            sums.low[shift][1][rank] = w * splat(q[0]) * splat(q[0]);
            sums.high[shift][0][rank] = (totals[0] - x) * splat(q[2]);
            sums.high[shift][1][rank] = (totals[1] - w) * splat(q[2]) * splat(q[2]);
        }
    }
    inexact
}

/// A lower bound of the best score: the better of both shifts after a few rounds of choosing levels for a
/// scale and a scale for levels.
#[simd]
fn reachable_score<S: Simd>(
    simd: S,
    values: &[S::f32s; SUB],
    weights: &[S::f32s; SUB],
    totals: [S::f32s; 2],
) -> S::f32s {
    let splat = |value: f32| S::f32s::splat(simd, value);
    let zero = splat(0.0);
    let [total_x, total_w] = totals;
    // Lloyd's iteration: with a scale `d`, boundaries lie halfway between neighboring levels times `d`; with
    // levels, `d = sum w q x / sum w q^2`. It begins at 1.1 times the root mean square; every round gives the
    // score of some split.
    let mut size = zero;
    let mut products = [zero; SUB];
    for i in 0..SUB {
        products[i] = weights[i] * values[i];
        size += products[i] * values[i];
    }
    let start = (size / total_w).sqrt() * splat(1.1);
    let mut scales = [start; 2];
    let mut score = zero;
    for _ in 0..ROUNDS {
        // [up or down][first or second boundary].
        let bounds = [
            [scales[0] * splat((UP[0] + UP[1]) / 2.0), scales[0] * splat((UP[1] + UP[2]) / 2.0)],
            [scales[1] * splat((DOWN[0] + DOWN[1]) / 2.0), scales[1] * splat((DOWN[1] + DOWN[2]) / 2.0)],
        ];
        let mut above = [[[zero; 2]; 2]; 2];
        for i in 0..SUB {
            for shift in 0..2 {
                for bound in 0..2 {
                    let is_above = values[i].simd_gt(bounds[shift][bound]);
                    let [x, w] = above[shift][bound];
                    above[shift][bound] =
                        [is_above.select(x + products[i], x), is_above.select(w + weights[i], w)];
                }
            }
        }
        for (shift, q) in [UP, DOWN].into_iter().enumerate() {
            // Neighboring levels are 1 apart, so with `X` and `W` the total sums and `X1`, `W1`, `X2`, `W2`
            // those above the two boundaries: `sum w q x = q0 X + X1 + X2` and
            // `sum w q^2 = q0^2 W + (q1^2 - q0^2) W1 + (q2^2 - q1^2) W2`.
            let sum_qx = total_x * splat(q[0]) + above[shift][0][0] + above[shift][1][0];
            let sum_q2 = total_w * splat(q[0] * q[0])
                + above[shift][0][1] * splat(q[1] * q[1] - q[0] * q[0])
                + above[shift][1][1] * splat(q[2] * q[2] - q[1] * q[1]);
            scales[shift] = sum_qx / sum_q2;
            score = score.max(scales[shift] * sum_qx);
        }
    }
    score
}

const ROUNDS: usize = 3;

/// The split that the scalar search finds. Lanes with possibly another result become wild.
#[simd]
fn best_split<S: Simd>(
    simd: S,
    values: &[S::f32s; SUB],
    weights: &[S::f32s; SUB],
    ranks: &[S::u32s; SUB],
    sums: &mut Sums<S::f32s>,
    wild: &mut u64,
) -> Split<S::f32s, S::u32s> {
    let splat = |value: f32| S::f32s::splat(simd, value);
    let zero = splat(0.0);
    // Maximizes `score = (sum w q x)^2 / sum w q^2` over both shifts and all boundaries `first <= second`.
    let inexact = add_up(simd, values, weights, ranks, sums);
    let (mut largest, mut least_weight, mut size) = (zero, weights[0], zero);
    for i in 0..SUB {
        largest = largest.max(values[i].abs());
        least_weight = least_weight.min(weights[i]);
        size += (weights[i] * values[i]).abs();
    }
    let mut total_w = zero;
    for weight in weights {
        total_w += *weight;
    }
    let mut total_x = zero;
    for i in 0..SUB {
        total_x += weights[i] * values[i];
    }
    // The following is valid for numbers in this range; comparisons with NaN are false. Below these bounds
    // `w x` is at most 1e18 and the square of a sum is 1.6e36, which is finite. `sum w q^2` is at least a
    // 64th of the weights, so with 1e-25 it is not subnormal. Below SMALLEST_GROUP the scalar code treats a
    // sub-block as zero.
    let tame = largest.simd_ge(splat(SMALLEST_GROUP))
        & largest.simd_lt(splat(1e9))
        & least_weight.simd_ge(zero)
        & total_w.simd_gt(splat(1e-25))
        & total_w.simd_lt(splat(1e9));

    let start = reachable_score(simd, values, weights, [total_x, total_w]) * splat(START);
    let mut best_score = start;
    let mut best_scale = zero;
    let mut split = S::u32s::splat(simd, 0);
    let mut taken = S::u32s::splat(simd, 0);

    // For a stretch of second boundaries, the maximum and minimum of the sums above them, with a margin for
    // rounding. Why 1e-5: a split and the bound of its stretch add the prefixes in different orders, 7
    // additions of at most 1.25 * size, a relative difference of 7 * 1.25 * 2^-24 = 5e-7; the comparison
    // rounds three more products. A wider margin costs little: a few more stretches are examined.
    let (margin_x, margin_w) = (size * splat(1e-5), total_w * splat(1e-5));
    let mut most = [[zero; STRETCHES]; 2];
    let mut least = [[zero; STRETCHES]; 2];
    let mut least_q2 = [[zero; STRETCHES]; 2];
    for shift in 0..2 {
        // The part of the middle that a second boundary determines.
        let sign = splat([1.0, -1.0][shift]);
        for stretch in 0..STRETCHES {
            let seconds = STRETCH * stretch..(STRETCH * (stretch + 1)).min(SUB + 1);
            let (mut above, mut below, mut light) = (splat(f32::MIN), splat(f32::MAX), splat(f32::MAX));
            for second in seconds {
                let part = sums.high[shift][0][second] + sums.middle[0][second] * sign;
                above = above.max(part);
                below = below.min(part);
                light = light.min(sums.high[shift][1][second] + sums.middle[1][second]);
            }
            most[shift][stretch] = above + margin_x;
            least[shift][stretch] = below - margin_x;
            least_q2[shift][stretch] = light - margin_w;
        }
    }

    for first in 0..SUB + 1 {
        let (middle_x, middle_w) = (sums.middle[0][first], sums.middle[1][first]);
        let low_x = [sums.low[0][0][first], sums.low[1][0][first]];
        let low_w = [sums.low[0][1][first], sums.low[1][1][first]];
        let part_x = [low_x[0] - middle_x, low_x[1] + middle_x];
        let part_w = [low_w[0] - middle_w, low_w[1] - middle_w];
        for stretch in first / STRETCH..STRETCHES {
            let mut hopeful = S::mask32s::splat(simd, false);
            for shift in 0..2 {
                // The largest possible magnitude of `sum w q x` in the stretch, with the least possible
                // `sum w q^2`.
                let farthest =
                    (part_x[shift] + most[shift][stretch]).max(zero - part_x[shift] - least[shift][stretch]);
                hopeful |=
                    (farthest * farthest).simd_gt(best_score * (part_w[shift] + least_q2[shift][stretch]));
            }
            if !hopeful.any_true() {
                continue;
            }
            let seconds = (STRETCH * stretch).max(first)..(STRETCH * (stretch + 1)).min(SUB + 1);
            for second in seconds {
                let x = sums.middle[0][second] - middle_x;
                let w = sums.middle[1][second] - middle_w;
                let sum_qx = [low_x[0] + x + sums.high[0][0][second], low_x[1] - x + sums.high[1][0][second]];
                let sum_q2 = [low_w[0] + w + sums.high[0][1][second], low_w[1] + w + sums.high[1][1][second]];
                // Both shifts at one boundary: usually neither is better in any lane.
                let squares = [sum_qx[0] * sum_qx[0], sum_qx[1] * sum_qx[1]];
                let better =
                    squares[0].simd_gt(best_score * sum_q2[0]) | squares[1].simd_gt(best_score * sum_q2[1]);
                if better.any_true() {
                    for shift in 0..2 {
                        let better = squares[shift].simd_gt(best_score * sum_q2[shift]);
                        let scale = sum_qx[shift] / sum_q2[shift];
                        best_scale = better.select(scale, best_scale);
                        best_score = better.select(scale * sum_qx[shift], best_score);
                        let this = first | second << 8 | (1 - shift) << 16;
                        split = better.select(S::u32s::splat(simd, this as u32), split);
                        taken = better.select(taken + 1, taken);
                    }
                }
            }
        }
    }
    // No product of the score is subnormal (1e-30 / 64 is far from 2^-126), the search accepted few enough
    // splits for the proof of [`START`], and at least one.
    let sure = tame
        & (best_score * total_w).simd_gt(splat(1e-30))
        & taken.simd_lt(S::u32s::splat(simd, MAX_TAKEN))
        & taken.simd_gt(S::u32s::splat(simd, 0));
    *wild |= !sure.to_bitmask() | inexact.to_bitmask();
    Split { scale: best_scale, split }
}
