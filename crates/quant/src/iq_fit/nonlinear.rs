//! The search of IQ4_NL and IQ4_XS: a scale for 32 values and a table of 16 unevenly spaced integers.

use crate::{
    fit,
    grids::IQ4_VALUES,
    round::{MAGIC, nearest_int},
};

pub const SUB: usize = 32;

/// The table index for `floor(2 * value) + 256`.
///
/// The reference compares `value - lower < upper - value` in f32. All 15 midpoints are multiples of 1/2 and each
/// is at least half a gap away from zero in magnitude or in the same binade as half a gap, so both differences
/// are exact near the midpoint and the comparison is `value < midpoint`, that is, `floor(2 * value) < 2 * midpoint`.
/// A test checks every f32 near every midpoint.
static INDEX: [u8; 512] = {
    let mut table = [0; 512];
    let mut position = 0;
    while position < 512 {
        let mut index = 0;
        while index < 15 && position as i32 - 256 >= (IQ4_VALUES[index] as i32 + IQ4_VALUES[index + 1] as i32)
        {
            index += 1;
        }
        table[position] = index as u8;
        position += 1;
    }
    table
};

/// The index of the table value nearest to `value`; the upper one of equals, the last one for NaN.
///
/// Source: `best_index_int8` in `ggml/src/ggml-quants.c`.
#[inline(always)]
pub fn nearest_index(value: f32) -> u8 {
    let twice = 2.0 * value;
    let twice = if twice < 255.0 { twice } else { 255.0 };
    let twice = if twice > -255.0 { twice } else { -255.0 };
    // Rounded to the nearest integer, then down if that went up.
    let floor = nearest_int(twice) - i32::from(twice + MAGIC - MAGIC > twice);
    INDEX[(floor + 256) as usize & 511]
}

/// The scale of one sub-block: `d` with `value ~ d * IQ4_VALUES[index]`; 0 for a sub-block of zeros.
///
/// The first candidate maps the value of the largest magnitude to 127, the first table value with its sign
/// flipped; 15 more map it to the first table value and up to 7 on either side.
///
/// Source: `quantize_row_iq4_nl_impl` with `ntry` = 7 in `ggml/src/ggml-quants.c`.
pub fn sub_scale(values: &[f32; SUB], weights: &[f32; SUB]) -> f32 {
    let (max, magnitude) = fit::largest(values);
    if magnitude < fit::SMALLEST_GROUP {
        return 0.0;
    }
    let first = f32::from(IQ4_VALUES[0]);
    // `sum w (x - d q)^2` with table values `q` is least at `d = sum w q x / sum w q^2`, and the best `q`
    // have the largest `(sum w q x)^2 / sum w q^2`.
    let (sum_qx, sum_q2) = sums(values, weights, 1.0 / (-max / first));
    let mut scale = if sum_q2 > 0.0 { sum_qx / sum_q2 } else { 0.0 };
    let mut best = scale * sum_qx;
    // These map the value of largest magnitude to between -134 and -120.
    for step in -7i16..=7 {
        let (sum_qx, sum_q2) = sums(values, weights, f32::from(step + i16::from(IQ4_VALUES[0])) / max);
        if sum_q2 > 0.0 && sum_qx * sum_qx > best * sum_q2 {
            scale = sum_qx / sum_q2;
            best = scale * sum_qx;
        }
    }
    scale
}

/// `sum w*q*x` and `sum w*q*q` of the table values nearest to `id * values`.
#[inline(always)]
fn sums(values: &[f32; SUB], weights: &[f32; SUB], id: f32) -> (f32, f32) {
    let (mut sum_qx, mut sum_q2) = (0.0, 0.0);
    for (&value, &weight) in values.iter().zip(weights) {
        let q = f32::from(IQ4_VALUES[usize::from(nearest_index(id * value))]);
        sum_qx += weight * q * value;
        sum_q2 += weight * q * q;
    }
    (sum_qx, sum_q2)
}

/// The weights of one sub-block: by importance, or the squares of the values without it.
#[inline(always)]
pub fn weights(values: &[f32; SUB], importance: Option<&[f32; SUB]>, sigma2: f32) -> [f32; SUB] {
    match importance {
        Some(importance) => fit::importance_weights(values, importance, sigma2),
        None => values.map(|value| value * value),
    }
}

/// Packs 32 indices: the first half in the low nibbles, the second half in the high ones.
pub fn pack(indices: &[u8; SUB], packed: &mut [u8]) {
    for (i, byte) in packed.iter_mut().enumerate() {
        *byte = indices[i] | (indices[i + 16] << 4);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `best_index_int8` of the reference, restated: bisection, then the nearer of two.
    fn restated(value: f32) -> u8 {
        let table = IQ4_VALUES.map(f32::from);
        if value <= table[0] {
            return 0;
        }
        if value >= table[15] {
            return 15;
        }
        let (mut lower, mut upper) = (0, 15);
        while upper - lower > 1 {
            let middle = (lower + upper) / 2;
            if value < table[middle] { upper = middle } else { lower = middle }
        }
        let nearer_below = value - table[upper - 1] < table[upper] - value;
        (if nearer_below { upper - 1 } else { upper }) as u8
    }

    #[test]
    fn table_gives_nearest_value_around_midpoints() {
        for pair in IQ4_VALUES.windows(2) {
            let middle = (f32::from(pair[0]) + f32::from(pair[1])) / 2.0;
            for base in [middle, f32::from(pair[0]), f32::from(pair[1])] {
                for offset in -70_000i32..=70_000 {
                    let value = f32::from_bits(base.to_bits().wrapping_add_signed(offset));
                    assert_eq!(nearest_index(value), restated(value), "{value:e}");
                }
            }
        }
    }

    #[test]
    fn table_gives_nearest_value_everywhere() {
        for bits in (0..=u32::MAX).step_by(9973) {
            let value = f32::from_bits(bits);
            assert_eq!(nearest_index(value), restated(value), "{value:e}");
        }
    }
}
