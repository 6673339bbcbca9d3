//! What rounding gains and costs for each type, on weights and inputs that are made up: `rounding_cost [N_COLUMNS [N_ROWS [TYPE...]]]`.
//!
//! Inputs are sums of a few common parts and parts of their own, with sizes that differ by column; the figures are those of one
//! thread. Gains are of `tr(E G E^T)` on tokens that were not used.
#![expect(clippy::unwrap_used, reason = "a measurement that cannot go on has nothing to say")]

use std::time::Instant;

use quant::{Level, Rows};
use refine::{Gram, Rounding, RoundingOptions, is_refinable, output_error};
use tensor::DType;
use testkit::{mix, normal};

/// Common parts of the inputs.
const N_COMMON: usize = 48;

fn gram(seed: u64, n: usize, n_tokens: usize) -> Gram {
    let bell = |seed: u64, i: usize| normal(seed, i as u64) * 50.0;
    let mixing: Vec<f32> = (0..n * N_COMMON).map(|i| bell(1, i) * 0.4).collect();
    let sizes: Vec<f32> = (0..n)
        .map(|j| (bell(2, j) * 0.7).exp() * if mix(3, j as u64) % 50 == 0 { 6.0 } else { 1.0 })
        .collect();
    let mut sums = vec![0.0f32; n * n];
    for token in 0..n_tokens {
        let common: Vec<f32> = (0..N_COMMON).map(|k| bell(seed, token * N_COMMON + k)).collect();
        let x: Vec<f32> = (0..n)
            .map(|j| {
                let shared: f32 = common.iter().zip(&mixing[j * N_COMMON..]).map(|(a, b)| a * b).sum();
                sizes[j] * (shared + bell(seed + 1, token * n + j))
            })
            .collect();
        for (sums, a) in sums.chunks_exact_mut(n).zip(&x) {
            sums.iter_mut().zip(&x).for_each(|(sum, b)| *sum += a * b);
        }
    }
    Gram::from_sums(n, n_tokens as u64, sums).unwrap()
}

fn main() {
    let mut args = std::env::args().skip(1);
    let n: usize = args.next().map_or(768, |n| n.parse().unwrap());
    let n_rows: usize = args.next().map_or(256, |n| n.parse().unwrap());
    let only: Vec<String> = args.collect();
    rayon::ThreadPoolBuilder::new().num_threads(1).build_global().unwrap();
    let (fit, held) = (gram(10, n, 4 * n), gram(20, n, 2 * n));
    let weights: Vec<f32> = (0..n * n_rows).map(|i| normal(5, i as u64)).collect();
    let diagonal: Vec<f32> = (0..n).map(|j| fit.sums()[j * (n + 1)] / fit.n_tokens() as f32).collect();
    let base = RoundingOptions::default();
    let scales = RoundingOptions { feedback: false, scale_sweeps: 1, sweeps: 0, ..base };
    // Passes one after the other, each from where the last one stood.
    let variants: [(&str, Vec<RoundingOptions>); 7] = [
        ("descent", vec![RoundingOptions { feedback: false, ..base }]),
        ("feedback", vec![RoundingOptions { sweeps: 0, ..base }]),
        ("both", vec![base]),
        ("both+s", vec![RoundingOptions { scale_sweeps: 1, sweeps: 1, ..base }]),
        ("both+2s", vec![RoundingOptions { scale_sweeps: 2, sweeps: 1, ..base }]),
        ("s,both", vec![scales, base]),
        ("s,both+s", vec![scales, RoundingOptions { scale_sweeps: 1, sweeps: 1, ..base }]),
    ];
    println!("{n} columns, {n_rows} rows, level {:?}", Level::detect());
    for codec in quant::CODECS.iter().filter(|codec| is_refinable(codec.dtype)) {
        let dtype: DType = codec.dtype;
        if !n.is_multiple_of(dtype.block_elems() as usize)
            || !(only.is_empty() || only.iter().any(|name| *name == dtype.name()))
        {
            continue;
        }
        let mut stock = vec![0; n * n_rows / dtype.block_elems() as usize * dtype.block_bytes() as usize];
        let rows = Rows { values: &weights, row_elems: n, weights: Some(&diagonal) };
        quant::encode(dtype, Level::detect(), rows, &mut stock).unwrap();
        let error = |blocks: &[u8]| output_error(&held, dtype, &weights, blocks, n).unwrap();
        let before = error(&stock);
        print!("{:8}", dtype.name());
        for (name, passes) in &variants {
            let mut blocks = stock.clone();
            let mut seconds = 0.0;
            for options in passes {
                let rounding = Rounding::for_type(&fit, options, dtype).unwrap();
                let start = Instant::now();
                rounding.refine(dtype, &weights, &mut blocks).unwrap();
                seconds += start.elapsed().as_secs_f64();
            }
            let of_weight = seconds / (n * n_rows) as f64 * 1e9;
            print!("  {name} {:.3} {of_weight:.0} ns", error(&blocks) / before);
        }
        println!();
    }
}
