use crate::{
    block::{put_u16, u16_at},
    fit,
    grids::{Codebook, IQ1_VALUES},
    iq_fit::{
        self, SUPER,
        ternary::{self, DELTA, DOWN, UP},
    },
    round::{f16_to_f32, f32_to_f16},
};

pub const SUB: usize = 16;

/// A sub-block with a smaller largest magnitude counts as zero (`GROUP_MAX_EPS_IQ1_M`).
pub const SMALLEST_GROUP: f32 = 1e-7;

/// The levels of the two halves of a sub-block for each of the four shifts.
const LEVELS: [[&[f32; 4]; 2]; 4] = [[&UP, &UP], [&UP, &DOWN], [&DOWN, &UP], [&DOWN, &DOWN]];

/// Result for a sub-block; the default is that of a sub-block of zeros.
#[derive(Debug, Clone, Copy, Default)]
struct Found {
    /// The scale, not negative.
    scale: f32,
    /// Index into [`LEVELS`].
    shift: usize,
    /// The indices of the two points.
    indices: [u16; 2],
}

/// Encodes a block.
///
/// Source: `quantize_row_iq1_m_impl` in `ggml/src/ggml-quants.c`.
pub fn encode(values: &[f32; SUPER], importance: Option<&[f32; SUPER]>, block: &mut [u8; super::BYTES]) {
    let codebook = Codebook::iq1();
    *block = [0; super::BYTES];
    let sigma2 = 2.0 * fit::sum_of_squares(values) / SUPER as f32;
    let subs = values.as_chunks::<SUB>().0;
    let weights: [[f32; SUB]; SUPER / SUB] = std::array::from_fn(|at| match importance {
        Some(importance) => fit::importance_weights(&subs[at], &importance.as_chunks::<SUB>().0[at], sigma2),
        None => subs[at].map(|value| value * value),
    });
    let mut found = [Found::default(); SUPER / SUB];
    let mut max_scale = 0.0;
    for (at, values) in subs.iter().enumerate() {
        let max = values[1..].iter().fold(values[0].abs(), |max, x| iq_fit::larger(max, x.abs()));
        if max < SMALLEST_GROUP {
            continue;
        }
        let Some(sub) = encode_sub(codebook, values, &weights[at]) else {
            continue;
        };
        block[2 * at..][..2].copy_from_slice(&sub.indices.map(|index| index as u8));
        block[32 + at] = (sub.indices[0] >> 8 | sub.indices[1] >> 8 << 4) as u8;
        max_scale = iq_fit::larger(max_scale, sub.scale);
        found[at] = sub;
    }
    if max_scale == 0.0 {
        return;
    }

    // The super-block's scale is fitted again to the sub-blocks' rounded scales.
    let mut d = max_scale / 15.0;
    let id = 1.0 / d;
    let mut words = [0u16; 4];
    let mut sums = [0.0; 2];
    for (at, sub) in found.iter().enumerate() {
        let scale = iq_fit::odd_scale(id, sub.scale, 7);
        words[at / 4] |= u16::from(scale) << (3 * (at % 4));
        block[32 + at] |= [0x00, 0x80, 0x08, 0x88][sub.shift];
        let factor = f32::from(2 * scale + 1);
        for half in 0..2 {
            let (values, weights) = (&subs[at][8 * half..][..8], &weights[at][8 * half..][..8]);
            let code = codebook.code(sub.indices[half]);
            ternary::add_sums(&mut sums, code, values, weights, LEVELS[sub.shift][half], factor);
        }
    }
    if sums[1] > 0.0 {
        d = sums[0] / sums[1];
    }
    // The reference states this factor without derivation.
    let half = f32_to_f16(d * 1.1125);
    for (at, word) in words.into_iter().enumerate() {
        put_u16(block, 48 + 2 * at, word | (half >> (4 * at) & 15) << 12);
    }
}

/// One sub-block; `None` if no split has a positive sum.
fn encode_sub(codebook: &Codebook, values: &[f32; SUB], weights: &[f32; SUB]) -> Option<Found> {
    let order = ternary::ascending(values);
    let (mut scale, first, second, mut shift) = best_split(values, weights, &order)?;
    let mut codes = ternary::codes_of_split::<SUB, 2>(&order, first, second, scale < 0.0);
    if scale < 0.0 {
        (scale, shift) = (-scale, 3 - shift);
    }
    if ternary::move_to_codebook(codebook, &mut codes, values, weights, scale, LEVELS[shift]) {
        let mut sums = [0.0; 2];
        for half in 0..2 {
            let (values, weights) = (&values[8 * half..][..8], &weights[8 * half..][..8]);
            ternary::add_sums(&mut sums, codes[half], values, weights, LEVELS[shift][half], 1.0);
        }
        if sums[0] > 0.0 && sums[1] > 0.0 {
            scale = sums[0] / sums[1];
        }
    }
    Some(Found { scale, shift, indices: codes.map(|code| codebook.index(code)) })
}

/// The best of all splits of the sorted values into low, middle and high with each of the four shifts:
/// `(scale, first, second, shift)` with the largest `(sum w*q*x)^2 / sum w*q*q`, the first of equals.
///
/// Prefix sums are kept for each half of the sub-block, because shifts are independent. Neighboring levels
/// are 1 apart, so the sum over three groups is `total * high - sum_x[first] - sum_x[second]`.
fn best_split(
    values: &[f32; SUB],
    weights: &[f32; SUB],
    order: &[u8; SUB],
) -> Option<(f32, usize, usize, usize)> {
    // (half, rank) prefix sums. Entry `b` is the sum over the elements of a half below boundary `b`.
    let mut sum_x = [[0.0f32; SUB + 1]; 2];
    let mut sum_w = [[0.0f32; SUB + 1]; 2];
    for (rank, &element) in order.iter().enumerate() {
        let element = usize::from(element);
        let half = element / 8;
        for sums in [&mut sum_x, &mut sum_w] {
            sums[0][rank + 1] = sums[0][rank];
            sums[1][rank + 1] = sums[1][rank];
        }
        sum_x[half][rank + 1] += weights[element] * values[element];
        sum_w[half][rank + 1] += weights[element];
    }
    // (up or down, half): terms that depend on no boundary, on the first, on the second.
    let shifts = [UP, DOWN];
    let totals_qx = shifts.map(|q| sum_x.map(|x| x[SUB] * q[2]));
    let first_q2 = shifts
        .map(|q| sum_w.map(|w| w.map(|first| w[SUB] * q[2] * q[2] + first * (q[0] * q[0] - q[1] * q[1]))));
    let second_q2 = shifts.map(|q| sum_w.map(|w| w.map(|second| second * (q[1] * q[1] - q[2] * q[2]))));

    let mut best = None;
    let mut best_score = -f32::MAX;
    for first in 0..SUB + 1 {
        // (shift, second) sums of all splits with this first boundary.
        let mut sums_qx = [[0.0f32; SUB + 1]; 4];
        let mut sums_q2 = [[0.0f32; SUB + 1]; 4];
        // True if any beats the best so far, which is rare.
        let mut any = false;
        for shift in 0..4 {
            let (low, high) = (shift / 2, shift % 2);
            for second in first..SUB + 1 {
                let inner = [0, 1].map(|half| sum_x[half][first] + sum_x[half][second]);
                let sum_qx = (totals_qx[low][0] - inner[0]) + (totals_qx[high][1] - inner[1]);
                let sum_q2 = (first_q2[low][0][first] + second_q2[low][0][second])
                    + (first_q2[high][1][first] + second_q2[high][1][second]);
                any |= (sum_q2 > 0.0) & (sum_qx * sum_qx > best_score * sum_q2);
                sums_qx[shift][second] = sum_qx;
                sums_q2[shift][second] = sum_q2;
            }
        }
        if !any {
            continue;
        }
        for second in first..SUB + 1 {
            for shift in 0..4 {
                let (sum_qx, sum_q2) = (sums_qx[shift][second], sums_q2[shift][second]);
                if sum_q2 > 0.0 && sum_qx * sum_qx > best_score * sum_q2 {
                    let scale = sum_qx / sum_q2;
                    best_score = scale * sum_qx;
                    best = Some((scale, first, second, shift));
                }
            }
        }
    }
    best
}

#[inline(always)]
pub fn decode(block: &[u8; super::BYTES], values: &mut [f32; SUPER]) {
    let words: [u16; 4] = std::array::from_fn(|at| u16_at(block, 48 + 2 * at));
    let half = words.iter().rev().fold(0, |half, word| half << 4 | word >> 12);
    let d = f16_to_f32(half);
    for (group, values) in values.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        let sub = group / 2;
        let scale = d * f32::from(2 * (words[sub / 4] >> (3 * (sub % 4)) & 7) + 1);
        let head = block[32 + sub] >> (4 * (group % 2));
        let delta = if head & 8 != 0 { -DELTA } else { DELTA };
        let point = IQ1_VALUES[usize::from(block[group]) | usize::from(head & 7) << 8];
        for (value, level) in values.iter_mut().zip(point) {
            *value = scale * (f32::from(level as i8) + delta);
        }
    }
}
