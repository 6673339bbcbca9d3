//! Common part of IQ1_S and IQ1_M: levels -1, 0, 1, moved up or down by 1/8, found by splitting sorted values
//! in three.

pub mod points;
pub mod split;

use super::nearest_point;
use crate::grids::{Codebook, Place};

/// Shift of the three levels (`IQ1S_DELTA`, `IQ1M_DELTA`).
pub const DELTA: f32 = 0.125;

pub const UP: [f32; 4] = [-1.0 + DELTA, DELTA, 1.0 + DELTA, 0.0];
pub const DOWN: [f32; 4] = [-1.0 - DELTA, -DELTA, 1.0 - DELTA, 0.0];

/// The order of ascending values, equal ones in the order of their index.
///
/// The reference calls `qsort` with a comparator of values, so the order of equal values depends on the C
/// library; glibc's is a stable merge sort (the goldens were made with 2.36). Here each value counts the
/// preceding ones without branches: with a merge sort, a quarter of the search time was spent on mispredicted
/// branches. A NaN makes all weights of its super-block NaN, and then the order is not used.
///
/// Source: `iq1_sort_helper` in `ggml/src/ggml-quants.c`.
pub fn ascending<const N: usize>(values: &[f32; N]) -> [u8; N] {
    let mut ranks = [0u32; N];
    for (at, &value) in values.iter().enumerate() {
        for i in 0..at + 1 {
            ranks[i] += u32::from(value < values[i]);
        }
        for i in at + 1..N {
            ranks[i] += u32::from(value <= values[i]);
        }
    }
    let mut order = [0; N];
    for (i, rank) in ranks.into_iter().enumerate() {
        order[rank as usize] = i as u8;
    }
    order
}

/// The codes of groups of eight, from a split: the first `first` in order are low, those up to `second` middle,
/// the rest high. `flipped` exchanges low and high.
pub fn codes_of_split<const N: usize, const GROUPS: usize>(
    order: &[u8; N],
    first: usize,
    second: usize,
    flipped: bool,
) -> [u16; GROUPS] {
    let mut codes = [0; GROUPS];
    for (rank, &element) in order.iter().enumerate() {
        // 0 for low, 1 for middle, 2 for high.
        let level = u16::from(rank >= first) + u16::from(rank >= second);
        let level = if flipped { 2 - level } else { level };
        codes[usize::from(element / 8)] |= level << (2 * (element % 8));
    }
    codes
}

/// Replaces each code that is not in the codebook by its best neighbor. Returns true if it replaced any.
pub fn move_to_codebook<const GROUPS: usize>(
    codebook: &Codebook,
    codes: &mut [u16; GROUPS],
    values: &[f32],
    weights: &[f32],
    scale: f32,
    levels: [&[f32; 4]; GROUPS],
) -> bool {
    let mut moved = false;
    let groups = values.as_chunks::<8>().0.iter().zip(weights.as_chunks::<8>().0);
    for ((code, levels), (values, weights)) in codes.iter_mut().zip(levels).zip(groups) {
        if let Place::OffGrid(candidates) = codebook.place(*code) {
            *code = nearest_point(candidates, values, weights, scale, levels);
            moved = true;
        }
    }
    moved
}

/// Adds a group's `w*q*x` and `w*q*q` to the sums, with `q = levels[level] * factor`.
#[inline(always)]
pub fn add_sums(
    sums: &mut [f32; 2],
    code: u16,
    values: &[f32],
    weights: &[f32],
    levels: &[f32; 4],
    factor: f32,
) {
    for (i, (value, weight)) in values.iter().zip(weights).enumerate() {
        let q = levels[usize::from(code >> (2 * i)) & 3] * factor;
        sums[0] += weight * q * value;
        sums[1] += weight * q * q;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_keep_their_order() {
        let values: [f32; 32] = std::array::from_fn(|i| [0.0, -0.0, 3.0, -1.0][i % 4]);
        let mut expected: Vec<u8> = (0..32).collect();
        expected.sort_by(|&a, &b| values[usize::from(a)].partial_cmp(&values[usize::from(b)]).unwrap());
        assert_eq!(ascending(&values).to_vec(), expected);
    }
}
