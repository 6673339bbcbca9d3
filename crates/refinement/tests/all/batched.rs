//! Rounding batches of rows with input and output statistics.

use gguf_quant::Level;
use gguf_refinement::{BatchedRounding, Error, Gram, Rounding, RoundingOptions, divergence};
use gguf_testkit::Data;
use gguf_types::DType;

use crate::common::{gram, stock};

const M: usize = 70;
const N: usize = 256;
const TYPES: [DType; 4] = [DType::Q4_K, DType::IQ4_XS, DType::IQ2_XS, DType::IQ3_XXS];

fn rounded(dtype: DType, weights: &[f32], options: &RoundingOptions) -> Result<Vec<u8>, Error> {
    let (inputs, outputs) = (gram(31, N, 700), gram(34, M, 400));
    let rounding = Rounding::for_type(&inputs, options, dtype)?;
    let encode = |values: &[f32]| Ok(stock(dtype, values, N));
    Ok(BatchedRounding::new(&outputs, options)?.round(&rounding, dtype, weights, &encode)?.0)
}

#[test]
fn output_statistics_lower_the_kronecker_error() {
    let weights = Data::Normal.values(37, M * N);
    let options =
        RoundingOptions { shrinkage: 0.1, output_shrinkage: Some(0.3), ..RoundingOptions::default() };
    for dtype in TYPES {
        let error = |blocks: &[u8]| {
            divergence(&gram(31, N, 700), &gram(34, M, 400), dtype, &weights, blocks).unwrap()
        };
        let mut one = stock(dtype, &weights, N);
        Rounding::for_type(&gram(31, N, 700), &options, dtype)
            .unwrap()
            .refine(dtype, &weights, &mut one)
            .unwrap();
        let both = rounded(dtype, &weights, &options).unwrap();
        assert!(error(&both) < 0.9 * error(&one), "{dtype}: {} by one side, {}", error(&one), error(&both));
    }
}

#[test]
fn bytes_do_not_depend_on_threads_or_level() {
    let weights = Data::Normal.values(47, M * N);
    let levels = Level::available();
    gguf_testkit::require_levels(&levels.iter().map(|level| level.name()).collect::<Vec<_>>());
    for dtype in [DType::Q4_K, DType::IQ2_XS] {
        let of = |level: Level, n_threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(n_threads).build().unwrap();
            let options = RoundingOptions { level, ..RoundingOptions::default() };
            pool.install(|| rounded(dtype, &weights, &options)).unwrap()
        };
        let first = of(Level::Scalar, 1);
        for level in &levels {
            for n_threads in [1, 3] {
                assert!(of(*level, n_threads) == first, "{dtype}, {level:?}, {n_threads} threads");
            }
        }
    }
}

/// If all rows have equal gradients, rows of a batch correct the error together, and a second pass would
/// raise the cost.
#[test]
fn rows_that_depend_on_each_other_do_not_diverge() {
    const ROWS: usize = 500;
    let weights = Data::Normal.values(53, ROWS * N);
    let options =
        RoundingOptions { shrinkage: 0.1, output_shrinkage: Some(0.3), ..RoundingOptions::default() };
    let outputs = Gram::from_sums(ROWS, 100, vec![1.0; ROWS * ROWS]).unwrap();
    for dtype in TYPES {
        let rounding = Rounding::for_type(&gram(31, N, 700), &options, dtype).unwrap();
        let batched = BatchedRounding::new(&outputs, &options).unwrap();
        let encode = |values: &[f32]| Ok(stock(dtype, values, N));
        let (blocks, both) = batched.round(&rounding, dtype, &weights, &encode).unwrap();
        let cost = |blocks: &[u8]| batched.cost(&rounding, dtype, &weights, blocks).unwrap();
        let stock = cost(&stock(dtype, &weights, N));
        assert_eq!(cost(&blocks), both, "{dtype}");
        assert!(both < stock, "{dtype}: {both}, {stock} by the codec");
    }
}

/// A row that is not finite is encoded like in the codec, and other rows do not compensate its errors.
#[test]
fn rows_that_are_not_finite_do_not_spread() {
    let mut weights = Data::Normal.values(57, M * N);
    weights[3 * N + 5] = f32::INFINITY;
    let blocks = rounded(DType::IQ4_XS, &weights, &RoundingOptions::default()).unwrap();
    let mut found = vec![0.0; M * N];
    gguf_quant::decode(DType::IQ4_XS, Level::detect(), &blocks, &mut found).unwrap();
    for row in (0..M).filter(|row| *row != 3) {
        let (of_row, values) = (row * N..(row + 1) * N, &found[row * N..(row + 1) * N]);
        let far = weights[of_row]
            .iter()
            .zip(values)
            .any(|(weight, value)| value.is_nan() || (weight - value).abs() >= 2.0);
        assert!(!far, "row {row}");
    }
}

#[test]
fn other_lengths_are_refused() {
    let weights = Data::Normal.values(37, M * N);
    let refused = rounded(DType::Q4_K, &weights[N..], &RoundingOptions::default());
    assert!(matches!(refused, Err(Error::Length { quantity: "rows of a matrix", .. })));
}
