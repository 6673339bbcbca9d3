//! Rounding compared with the published formulas in double precision (`scripts/golden/rounding.py`).

use gguf_quant::frozen::frozen;
use gguf_refinement::{Gram, Rounding, RoundingOptions};
use gguf_testkit::{bytes, from_hex, normal};
use gguf_types::DType;
use serde_json::Value;

/// Closer than this to a tie, in steps, single precision may decide otherwise.
const NEAR_A_TIE: f64 = 2e-4;

/// Inputs of the golden's script: small integers with correlated neighbors.
fn gram(n_columns: usize, n_tokens: usize) -> Gram {
    let (own, shared) = (bytes(1, n_tokens * n_columns), bytes(2, n_tokens * n_columns));
    let sizes: Vec<f32> = bytes(3, n_columns).iter().map(|byte| f32::from(1 + byte % 4)).collect();
    let mut sums = vec![0.0; n_columns * n_columns];
    for token in 0..n_tokens {
        let x = |j: usize| {
            let (own, shared) = (own[token * n_columns + j] % 7, shared[token * n_columns + j / 5] % 9);
            sizes[j] * (f32::from(own) - 3.0 + f32::from(shared) - 4.0)
        };
        let x: Vec<f32> = (0..n_columns).map(x).collect();
        for (i, sums) in sums.chunks_exact_mut(n_columns).enumerate() {
            sums.iter_mut().zip(&x).for_each(|(sum, other)| *sum += x[i] * other);
        }
    }
    Gram::from_sums(n_columns, n_tokens as u64, sums).expect("a square of sums")
}

#[test]
fn levels_match_published_formulas() {
    let text = std::fs::read_to_string(gguf_testkit::golden_path("rounding.json")).unwrap();
    let golden: Value = serde_json::from_str(&text).unwrap();
    let n = |key: &str| golden[key].as_u64().unwrap() as usize;
    let n_columns = n("n_columns");
    let options = RoundingOptions {
        shrinkage: golden["shrinkage"].as_f64().unwrap() as f32,
        damping: golden["damping"].as_f64().unwrap() as f32,
        scale_sweeps: 0,
        sweeps: n("sweeps"),
        ..RoundingOptions::default()
    };
    let rounding = Rounding::new(&gram(n_columns, n("n_tokens")), &options).unwrap();
    let rows = |key: &str| golden[key].as_array().unwrap().clone();
    let (margins, before, after) = (rows("margin"), rows("before"), rows("after"));
    assert_eq!(golden["dtype"], DType::Q4_K.name());
    let codec = frozen(DType::Q4_K).unwrap();
    let mut n_compared = 0;
    for (row, margin) in margins.iter().enumerate() {
        let block = |hex: &Value| from_hex(hex.as_str().unwrap()).unwrap();
        let weights: Vec<f32> = (0..n_columns).map(|j| normal(4, (row * n_columns + j) as u64)).collect();
        let mut blocks = block(&before[row]);
        rounding.refine(DType::Q4_K, &weights, &mut blocks).unwrap();
        if margin.as_f64().unwrap() < NEAR_A_TIE {
            continue;
        }
        n_compared += 1;
        let levels = |blocks: &[u8]| {
            let mut levels = vec![0; n_columns];
            (codec.levels)(blocks, &mut levels);
            levels
        };
        assert_eq!(levels(&blocks), levels(&block(&after[row])), "row {row}");
        assert!(blocks == block(&after[row]), "row {row}: scales");
    }
    assert!(n_compared >= 6, "only {n_compared} rows are far enough from ties");
}
