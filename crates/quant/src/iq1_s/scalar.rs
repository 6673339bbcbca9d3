use crate::{
    block::{f16_at, put_f16, put_u16, u16_at},
    fit,
    grids::{Codebook, IQ1_VALUES},
    iq_fit::{
        self, SUPER,
        ternary::{self, DELTA, DOWN, UP},
    },
};

pub const SUB: usize = 32;

/// A sub-block with a smaller largest magnitude counts as zero (`GROUP_MAX_EPS_IQ1_S`).
pub const SMALLEST_GROUP: f32 = 1e-12;

/// Reason that there are importance weights.
pub const HAS_WEIGHTS: &str = "`needs_weights` is checked before";

/// A split of the sorted values and its scale.
struct Split {
    /// The scale; may be negative.
    scale: f32,
    /// Number of low values.
    first: usize,
    /// Number of low or middle values.
    second: usize,
    /// True if the levels are moved up.
    up: bool,
}

/// Encodes a block.
///
/// Source: `quantize_row_iq1_s_impl` in `ggml/src/ggml-quants.c`.
pub fn encode(values: &[f32; SUPER], importance: Option<&[f32; SUPER]>, block: &mut [u8; super::BYTES]) {
    let codebook = Codebook::iq1();
    let importance = importance.expect(HAS_WEIGHTS);
    *block = [0; super::BYTES];
    let sigma2 = 2.0 * fit::sum_of_squares(values) / SUPER as f32;
    let mut heads = [0u16; 8];
    let mut scales = [0.0f32; 8];
    let mut down = [false; 8];
    let mut max_scale = 0.0;
    let subs = values.as_chunks::<SUB>().0.iter().zip(importance.as_chunks::<SUB>().0);
    for (at, (values, importance)) in subs.enumerate() {
        let weights = fit::importance_weights(values, importance, sigma2);
        if values[1..].iter().fold(values[0].abs(), |max, x| iq_fit::larger(max, x.abs())) < SMALLEST_GROUP {
            continue;
        }
        let order = ternary::ascending(values);
        let Some(Split { mut scale, first, second, mut up }) = best_split(values, &weights, &order) else {
            continue;
        };
        // A negative scale reverses all levels: low becomes high, and levels moved up become levels moved
        // down.
        let mut codes = ternary::codes_of_split::<SUB, 4>(&order, first, second, scale < 0.0);
        if scale < 0.0 {
            (scale, up) = (-scale, !up);
        }
        let levels = if up { &UP } else { &DOWN };
        if ternary::move_to_codebook(codebook, &mut codes, values, &weights, scale, [levels; 4]) {
            let mut sums = [0.0; 2];
            let groups = values.as_chunks::<8>().0.iter().zip(weights.as_chunks::<8>().0);
            for (code, (values, weights)) in codes.into_iter().zip(groups) {
                ternary::add_sums(&mut sums, code, values, weights, levels, 1.0);
            }
            if sums[0] > 0.0 && sums[1] > 0.0 {
                scale = sums[0] / sums[1];
            }
        }
        for (group, code) in codes.into_iter().enumerate() {
            let index = codebook.index(code);
            block[2 + 4 * at + group] = index as u8;
            heads[at] |= (index >> 8) << (3 * group);
        }
        scales[at] = scale;
        down[at] = !up;
        max_scale = iq_fit::larger(max_scale, scale);
    }
    if max_scale != 0.0 {
        // A scale is `d * (2 l + 1)` with `l` of 3 bits, so the largest is 15 steps. The reference states the
        // factor on `d` without derivation.
        let d = max_scale / 15.0;
        put_f16(block, 0, d * 1.125);
        let id = 1.0 / d;
        for at in 0..8 {
            let scale = u16::from(iq_fit::odd_scale(id, scales[at], 7)) | u16::from(down[at]) << 3;
            heads[at] |= scale << 12;
        }
    }
    for (at, head) in heads.into_iter().enumerate() {
        put_u16(block, 34 + 2 * at, head);
    }
}

/// The best of all splits of the sorted values into low, middle and high, levels moved up or down: the one
/// with the largest `(sum w*q*x)^2 / sum w*q*q`, the first of equals. `None` if no sum is positive.
fn best_split(values: &[f32; SUB], weights: &[f32; SUB], order: &[u8; SUB]) -> Option<Split> {
    // Prefix sums in sorted order, and the parts of the two sums that depend on only one boundary. Row `b` is
    // the sum over the elements below boundary `b`.
    let mut sum_x = [0.0f32; SUB + 1];
    let mut sum_w = [0.0f32; SUB + 1];
    for (rank, &element) in order.iter().enumerate() {
        let element = usize::from(element);
        sum_x[rank + 1] = sum_x[rank] + weights[element] * values[element];
        sum_w[rank + 1] = sum_w[rank] + weights[element];
    }
    let shifts = [UP, DOWN];
    let low = shifts.map(|q| (sum_x.map(|x| x * q[0]), sum_w.map(|w| w * q[0] * q[0])));
    let high = shifts
        .map(|q| (sum_x.map(|x| (sum_x[SUB] - x) * q[2]), sum_w.map(|w| (sum_w[SUB] - w) * q[2] * q[2])));

    let mut best: Option<Split> = None;
    let mut best_score = -f32::MAX;
    for first in 0..SUB + 1 {
        // (shift, second) sums of all splits with this first boundary.
        let mut sums_qx = [[0.0f32; SUB + 1]; 2];
        let mut sums_q2 = [[0.0f32; SUB + 1]; 2];
        // True if any beats the best so far, which is rare.
        let mut any = false;
        for (shift, q) in shifts.iter().enumerate() {
            for second in first..SUB + 1 {
                let middle_x = (sum_x[second] - sum_x[first]) * q[1];
                let middle_w = (sum_w[second] - sum_w[first]) * q[1] * q[1];
                let sum_qx = low[shift].0[first] + middle_x + high[shift].0[second];
                let sum_q2 = low[shift].1[first] + middle_w + high[shift].1[second];
                any |= (sum_q2 > 0.0) & (sum_qx * sum_qx > best_score * sum_q2);
                sums_qx[shift][second] = sum_qx;
                sums_q2[shift][second] = sum_q2;
            }
        }
        if !any {
            continue;
        }
        for second in first..SUB + 1 {
            for shift in 0..2 {
                let (sum_qx, sum_q2) = (sums_qx[shift][second], sums_q2[shift][second]);
                if sum_q2 > 0.0 && sum_qx * sum_qx > best_score * sum_q2 {
                    let scale = sum_qx / sum_q2;
                    best_score = scale * sum_qx;
                    best = Some(Split { scale, first, second, up: shift == 0 });
                }
            }
        }
    }
    best
}

#[inline(always)]
pub fn decode(block: &[u8; super::BYTES], values: &mut [f32; SUPER]) {
    let d = f16_at(block, 0);
    for (group, values) in values.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        let head = u16_at(block, 34 + group / 4 * 2);
        let scale = d * f32::from(2 * ((head >> 12) & 7) + 1);
        let delta = if head & 0x8000 != 0 { -DELTA } else { DELTA };
        let high = usize::from(head >> (3 * (group % 4)) & 7);
        let point = IQ1_VALUES[usize::from(block[2 + group]) | high << 8];
        for (value, level) in values.iter_mut().zip(point) {
            *value = scale * (f32::from(level as i8) + delta);
        }
    }
}
