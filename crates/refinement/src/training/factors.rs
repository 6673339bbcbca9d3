//! The half-precision factors of the blocks of one matrix, as trainable parameters.
//!
//! A weight is `d a + m b`, where `d` multiplies the scales of its block and `m` the offsets, and `a` and `b` are
//! the decoded values for `d = 1, m = 0` and `d = 0, m = 1`. A parameter `u` scales a factor: `d = half(d_0 u)`,
//! from `u = 1`. Its gradient is `d_0` times the sum of `a` times the gradients of the weights, over the block.
//! Rounding to half precision is ignored in the gradient.

use gguf_products::{Right, matmul_packed};
use gguf_quant::{
    Level, half_scales,
    round::{f16_to_f32, f32_to_f16},
};
use gguf_types::DType;
use ndarray::{ArrayView2, ArrayViewMut2, s};
use rayon::prelude::*;

use crate::Error;

/// 1.0 in half precision.
const ONE: u16 = 0x3c00;
/// The exponent of infinity and NaN.
const INFINITY: u16 = 0x7c00;
/// All bits of a half except the sign.
const SIZE: u16 = 0x7fff;
/// Partial sums of a dot product; the same at every CPU level.
const LANES: usize = 16;
/// Rows of a matrix whose weight gradients are alive at once, for each thread.
const ROWS: usize = 32;
const RANGE: (f32, f32) = (0.5, 2.0);

/// Decay of the means of gradients and of their squares.
const DECAY: (f32, f32) = (0.9, 0.99);
/// Addition to the root of the mean square, far below any gradient that matters.
const EPSILON: f32 = 1e-12;

/// A step of Adam (Kingma and Ba, arXiv:1412.6980).
#[derive(Debug, Clone, Copy)]
pub struct Step {
    /// Number of the step, from 1.
    pub index: i32,
    /// Size of the step, as a share of a factor.
    pub rate: f32,
    /// CPU level; it changes no bit.
    pub level: Level,
}

/// Inputs of a matrix and gradients at its output over the tokens of a step.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    /// (n_tokens, n_columns).
    pub inputs: &'a [f32],
    /// (n_tokens, n_rows).
    pub gradients: &'a [f32],
}

#[derive(Debug, Clone, Copy)]
struct Parameter {
    value: f32,
    mean: f32,
    square: f32,
}

impl Parameter {
    fn step(&mut self, gradient: f32, rate: f32, corrections: [f32; 2]) {
        if !gradient.is_finite() {
            return;
        }
        self.mean = DECAY.0 * self.mean + (1.0 - DECAY.0) * gradient;
        self.square = DECAY.1 * self.square + (1.0 - DECAY.1) * gradient * gradient;
        let root = (self.square / corrections[1]).sqrt() + EPSILON;
        self.value = (self.value - rate * (self.mean / corrections[0]) / root).clamp(RANGE.0, RANGE.1);
    }
}

#[derive(Debug)]
pub struct Factors {
    dtype: DType,
    n_rows: usize,
    n_columns: usize,
    /// One for each half of each block, in file order.
    parameters: Vec<Parameter>,
}

/// True if a type has factors.
pub fn has_factors(dtype: DType) -> bool {
    gguf_quant::codec(dtype).is_some() && !half_scales(dtype).is_empty()
}

impl Factors {
    /// Untrained factors of a matrix of blocks.
    pub fn new(dtype: DType, n_rows: usize, n_columns: usize) -> Factors {
        let n_blocks = n_rows * n_columns / dtype.block_elems() as usize;
        let parameter = Parameter { value: 1.0, mean: 0.0, square: 0.0 };
        Factors { dtype, n_rows, n_columns, parameters: vec![parameter; n_blocks * half_scales(dtype).len()] }
    }

    /// Blocks of the matrix with trained factors, from its untrained ones.
    pub fn apply(&self, untrained: &[u8]) -> Vec<u8> {
        let (halves, n_bytes) = (half_scales(self.dtype), self.dtype.block_bytes() as usize);
        let mut blocks = untrained.to_vec();
        for (block, parameters) in blocks.chunks_exact_mut(n_bytes).zip(self.parameters.chunks(halves.len()))
        {
            for (at, parameter) in halves.iter().zip(parameters) {
                put(block, *at, scaled(half(block, *at), parameter.value));
            }
        }
        blocks
    }

    /// Changes the parameters by a step of gradient descent.
    ///
    /// # Errors
    /// Blocks that do not decode.
    pub fn train(&mut self, untrained: &[u8], seen: Seen<'_>, step: Step) -> Result<(), Error> {
        let (n_rows, n_columns, dtype) = (self.n_rows, self.n_columns, self.dtype);
        let n_tokens = seen.inputs.len() / n_columns.max(1);
        let length = |found, expected| Error::Length { quantity: "gradients", found, expected };
        let gradients = ArrayView2::from_shape((n_tokens, n_rows), seen.gradients)
            .map_err(|_| length(seen.gradients.len(), n_tokens * n_rows))?;
        let inputs = ArrayView2::from_shape((n_tokens, n_columns), seen.inputs)
            .map_err(|_| length(seen.inputs.len(), n_tokens * n_columns))?;
        let mut right = Right::default();
        right.pack(step.level, inputs);
        let row_blocks = n_columns / dtype.block_elems() as usize;
        let (row_bytes, row_parameters) =
            (row_blocks * dtype.block_bytes() as usize, row_blocks * half_scales(dtype).len());
        let corrections = [1.0 - power(DECAY.0, step.index), 1.0 - power(DECAY.1, step.index)];
        let tiles = self
            .parameters
            .par_chunks_mut((ROWS * row_parameters).max(1))
            .zip(untrained.par_chunks((ROWS * row_bytes).max(1)))
            .enumerate();
        tiles.try_for_each(|(tile, (parameters, blocks))| {
            let first = tile * ROWS;
            let n = (n_rows - first).min(ROWS);
            // Gradients of the weights of these rows: (n, n_columns).
            let mut of_weights = vec![0.0; n * n_columns];
            let out = ArrayViewMut2::from_shape((n, n_columns), &mut of_weights[..]);
            let out = out.expect("as many values as the shape says");
            let left = gradients.slice(s![.., first..first + n]).reversed_axes();
            // Contiguous rows on the left need no packing for each panel.
            matmul_packed(false, 1.0, left.as_standard_layout().view(), &right, out);
            let rows = of_weights.chunks_exact(n_columns).zip(blocks.chunks_exact(row_bytes));
            let mut slopes = vec![0.0; n_columns];
            for ((of_weights, blocks), parameters) in rows.zip(parameters.chunks_mut(row_parameters)) {
                let found = gradients_of_row(dtype, step.level, of_weights, blocks, &mut slopes)?;
                for (parameter, gradient) in parameters.iter_mut().zip(found) {
                    parameter.step(gradient, step.rate, corrections);
                }
            }
            Ok(())
        })
    }

    pub fn values(&self) -> Vec<f32> {
        self.parameters.iter().map(|parameter| parameter.value).collect()
    }

    pub fn set_values(&mut self, values: &[f32]) {
        for (parameter, value) in self.parameters.iter_mut().zip(values) {
            parameter.value = *value;
        }
    }
}

/// Gradients of the factors of one row, in file order; zero for factors that are zero or not finite, which
/// stay. `slopes` is scratch space for the values of a row.
fn gradients_of_row(
    dtype: DType,
    level: Level,
    of_weights: &[f32],
    blocks: &[u8],
    slopes: &mut [f32],
) -> Result<Vec<f32>, Error> {
    let (halves, n_bytes) = (half_scales(dtype), dtype.block_bytes() as usize);
    let elems = dtype.block_elems() as usize;
    let mut gradients = vec![0.0; blocks.len() / n_bytes * halves.len()];
    let mut unit = blocks.to_vec();
    for (index, at) in halves.iter().enumerate() {
        for block in unit.chunks_exact_mut(n_bytes) {
            halves.iter().for_each(|other| put(block, *other, if other == at { ONE } else { 0 }));
        }
        gguf_quant::decode(dtype, level, &unit, slopes)?;
        let pairs = of_weights.chunks_exact(elems).zip(slopes.chunks_exact(elems));
        for ((block, pair), gradients) in
            blocks.chunks_exact(n_bytes).zip(pairs).zip(gradients.chunks_mut(halves.len()))
        {
            let now = half(block, *at);
            if now & SIZE == 0 || now & SIZE >= INFINITY {
                continue;
            }
            let sum = level.vectorize(
                #[inline(always)]
                || dot(pair.0, pair.1),
            );
            gradients[index] = f16_to_f32(now) * sum;
        }
    }
    Ok(gradients)
}

/// A sum in a fixed order: lane by lane, then the lanes.
#[inline(always)]
fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut lanes = [0.0f32; LANES];
    for (a, b) in a.as_chunks::<LANES>().0.iter().zip(b.as_chunks::<LANES>().0) {
        for lane in 0..LANES {
            lanes[lane] += a[lane] * b[lane];
        }
    }
    lanes.iter().sum()
}

/// A half times a parameter; signs, zeros and numbers that are not finite stay.
fn scaled(stored: u16, by: f32) -> u16 {
    if by == 1.0 || stored & SIZE == 0 || stored & SIZE >= INFINITY {
        return stored;
    }
    let found = f32_to_f16(f16_to_f32(stored) * by);
    if found & SIZE == 0 || found & SIZE >= INFINITY { stored } else { found }
}

/// `base^n` by repeated multiplication: the same on every machine.
fn power(base: f32, n: i32) -> f32 {
    (0..n).fold(1.0, |power, _| power * base)
}

fn half(block: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([block[at], block[at + 1]])
}

fn put(block: &mut [u8], at: usize, half: u16) {
    block[at..at + 2].copy_from_slice(&half.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Types with factors, with all their layouts: one or two factors, small blocks and super-blocks, codebooks.
    const TYPES: &[DType] = &[
        DType::Q4_0,
        DType::Q4_1,
        DType::Q5_1,
        DType::Q8_0,
        DType::Q2_K,
        DType::Q3_K,
        DType::Q4_K,
        DType::Q5_K,
        DType::Q6_K,
        DType::IQ4_NL,
        DType::IQ4_XS,
    ];

    fn values(seed: u64, n: usize) -> Vec<f32> {
        gguf_testkit::bytes(seed, n).iter().map(|byte| f32::from(*byte) / 128.0 - 1.0).collect()
    }

    fn blocks_of(dtype: DType, n_columns: usize, values: &[f32]) -> Vec<u8> {
        let mut blocks = vec![0; values.len() / dtype.block_elems() as usize * dtype.block_bytes() as usize];
        let rows = gguf_quant::Rows { values, row_elems: n_columns, weights: None };
        gguf_quant::encode(dtype, Level::detect(), rows, &mut blocks).unwrap();
        blocks
    }

    fn decoded(dtype: DType, blocks: &[u8]) -> Vec<f32> {
        let n = blocks.len() / dtype.block_bytes() as usize * dtype.block_elems() as usize;
        let mut values = vec![0.0; n];
        gguf_quant::decode(dtype, Level::detect(), blocks, &mut values).unwrap();
        values
    }

    #[test]
    fn factor_gradients_match_finite_differences() {
        for dtype in TYPES.iter().copied() {
            let n = 2 * dtype.block_elems() as usize;
            let blocks = blocks_of(dtype, n, &values(3, n));
            let of_weights = values(4, n);
            let mut slopes = vec![0.0; n];
            let found = gradients_of_row(dtype, Level::detect(), &of_weights, &blocks, &mut slopes).unwrap();
            let loss = |factors: &Factors| -> f64 {
                let values = decoded(dtype, &factors.apply(&blocks));
                values.iter().zip(&of_weights).map(|(w, g)| f64::from(*w) * f64::from(*g)).sum()
            };
            let largest = found.iter().fold(0.0f64, |most, g| most.max(f64::from(*g).abs()));
            assert!(largest > 0.0, "{dtype}");
            for (index, found) in found.iter().enumerate() {
                // Linear in each factor, so that a long step only hides rounding to half precision.
                let at = |value: f32| {
                    let mut factors = Factors::new(dtype, 1, n);
                    factors.parameters[index].value = value;
                    loss(&factors)
                };
                let expected = at(1.5) - at(0.5);
                let error = (f64::from(*found) - expected).abs();
                assert!(error < 2e-3 * largest, "{dtype} {index}: {found}, expected {expected}");
            }
        }
    }

    #[test]
    fn zero_blocks_and_codes_stay() {
        for dtype in TYPES.iter().copied() {
            let elems = dtype.block_elems() as usize;
            let (n_rows, n_columns, n_tokens) = (ROWS + 3, 2 * elems, 5);
            let mut weights = values(5, n_rows * n_columns);
            // A padded column block in each row.
            weights.chunks_exact_mut(n_columns).for_each(|row| row[elems..].fill(0.0));
            let blocks = blocks_of(dtype, n_columns, &weights);
            let (inputs, gradients) = (values(6, n_tokens * n_columns), values(7, n_tokens * n_rows));
            let seen = Seen { inputs: &inputs, gradients: &gradients };
            let mut factors = Factors::new(dtype, n_rows, n_columns);
            for index in 1..4 {
                let step = Step { index, rate: 0.1, level: Level::detect() };
                factors.train(&blocks, seen, step).unwrap();
            }
            let trained = factors.apply(&blocks);
            assert!(trained != blocks, "{dtype}");
            let n_bytes = dtype.block_bytes() as usize;
            let is_factor = |at: usize| half_scales(dtype).iter().any(|half| (*half..half + 2).contains(&at));
            for (block, (ours, before)) in trained.chunks(n_bytes).zip(blocks.chunks(n_bytes)).enumerate() {
                let is_padding = block % 2 == 1;
                let same = |at: usize| ours[at] == before[at] || (is_factor(at) && !is_padding);
                assert!((0..n_bytes).all(same), "{dtype} block {block}");
            }
        }
    }

    #[test]
    fn training_does_not_depend_on_threads_or_level() {
        let (dtype, n_rows, n_columns, n_tokens) = (DType::Q2_K, 3 * ROWS + 1, 768, 37);
        let blocks = blocks_of(dtype, n_columns, &values(8, n_rows * n_columns));
        let (inputs, gradients) = (values(9, n_tokens * n_columns), values(10, n_tokens * n_rows));
        let trained = |level: Level, n_threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(n_threads).build().unwrap();
            pool.install(|| {
                let mut factors = Factors::new(dtype, n_rows, n_columns);
                for index in 1..4 {
                    let seen = Seen { inputs: &inputs, gradients: &gradients };
                    factors.train(&blocks, seen, Step { index, rate: 0.01, level }).unwrap();
                }
                factors.apply(&blocks)
            })
        };
        let levels = Level::available();
        gguf_testkit::require_levels(&levels.iter().map(|level| level.name()).collect::<Vec<_>>());
        let expected = trained(Level::Scalar, 1);
        assert!(expected != blocks);
        for level in levels {
            for n_threads in [1, 3] {
                assert!(trained(level, n_threads) == expected, "{} {n_threads}", level.name());
            }
        }
    }
}
