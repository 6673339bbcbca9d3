//! Moments and blocks that tests of rounding begin with.

use gguf_quant::{Level, Rows};
use gguf_refinement::Gram;
use gguf_testkit::{Importance, mix, normal};
use gguf_types::DType;

/// Moments in which neighbors are correlated and sizes differ: `x_j = s_j (z_j + 2 z_common(j))`.
pub fn gram(seed: u64, n: usize, n_tokens: usize) -> Gram {
    let mut sums = vec![0.0; n * n];
    for token in 0..n_tokens as u64 {
        let own = |j: usize| normal(seed, token * n as u64 + j as u64) * 50.0;
        let shared = |j: usize| normal(seed + 1, token * 997 + j as u64 / 7) * 50.0;
        let size = |j: usize| 0.2 + (mix(seed + 2, j as u64) % 64) as f32 / 16.0;
        let x: Vec<f32> = (0..n).map(|j| size(j) * (own(j) + 2.0 * shared(j))).collect();
        for (i, sums) in sums.chunks_exact_mut(n).enumerate() {
            sums.iter_mut().zip(&x).for_each(|(sum, other)| *sum += x[i] * other);
        }
    }
    Gram::from_sums(n, n_tokens as u64, sums).expect("a square")
}

pub fn stock(dtype: DType, weights: &[f32], n_columns: usize) -> Vec<u8> {
    let importance = Importance::ALL[0].weights(1, n_columns);
    let mut blocks = vec![0; weights.len() / dtype.block_elems() as usize * dtype.block_bytes() as usize];
    let rows = Rows { values: weights, row_elems: n_columns, weights: Some(&importance) };
    gguf_quant::encode(dtype, Level::detect(), rows, &mut blocks).expect("lengths agree");
    blocks
}
