//! Error of a type on ordinary weights, to recognize tensors that lose far more.

use gguf_types::DType;

use crate::{Level, Rows, codec, decode, encode};

/// Normally distributed numbers that are encoded: number of rows, and elements per row.
const ROWS: usize = 8;
const ROW_ELEMS: usize = 1024;

/// Relative error of a type on normally distributed numbers, `sqrt(sum (decoded - x)^2 / sum x^2)`; `None` for types that
/// cannot be encoded.
///
/// # Examples
/// ```
/// use gguf_types::DType;
///
/// let error = gguf_quant::usual_error(DType::Q4_0).unwrap();
/// assert!(error > 0.05 && error < 0.12);
/// ```
pub fn usual_error(dtype: DType) -> Option<f64> {
    let needs_weights = codec(dtype)?.needs_weights;
    // The sum of twelve uniform numbers is close to a normal distribution.
    let uniform = |index: u64| split_mix(index) as f64 / u64::MAX as f64 - 0.5;
    let normal = |index: u64| (index * 12..(index + 1) * 12).map(uniform).sum::<f64>() as f32;
    let values: Vec<f32> = (0..(ROWS * ROW_ELEMS) as u64).map(normal).collect();
    let ones = [1.0; ROW_ELEMS];
    let rows = Rows { values: &values, row_elems: ROW_ELEMS, weights: needs_weights.then_some(&ones) };
    let n_blocks = values.len() / dtype.block_elems() as usize;
    let mut blocks = vec![0; n_blocks * dtype.block_bytes() as usize];
    let mut decoded = vec![0.0; values.len()];
    encode(dtype, Level::detect(), rows, &mut blocks).ok()?;
    decode(dtype, Level::detect(), &blocks, &mut decoded).ok()?;
    let difference: f64 = decoded.iter().zip(&values).map(|(a, b)| f64::from(a - b).powi(2)).sum();
    Some((difference / values.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>()).sqrt())
}

/// Output `index` of SplitMix64 with seed 0.
///
/// Source: Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014.
pub fn split_mix(index: u64) -> u64 {
    let z = index.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}
