//! Rounding with input and output statistics, compared with the formulas in double precision.

use crate::common::{gram, stock};
use gguf_quant::{
    Level,
    frozen::{FROZEN, FrozenCodec, Points, frozen},
};
use gguf_refinement::{Error, Gram, KroneckerRounding, Rounding, RoundingOptions, divergence};
use gguf_testkit::Data;
use gguf_types::DType;

/// `H` or `G` in double precision, with a mean diagonal of 1.
fn metric(gram: &Gram, shrinkage: f64, damping: f64) -> Vec<Vec<f64>> {
    let n = gram.n_columns();
    let sum = |i: usize, j: usize| f64::from(gram.sums()[i * n + j]);
    let mean = (0..n).map(|i| sum(i, i)).sum::<f64>() / n as f64;
    let entry = |i: usize, j: usize| {
        if i == j { sum(i, i) / mean + damping } else { (1.0 - shrinkage) * sum(i, j) / mean }
    };
    (0..n).map(|i| (0..n).map(|j| entry(i, j)).collect()).collect()
}

/// Indices by falling diagonal, and the unit lower factor of `V^T D V` in that order.
fn factored(h: &[Vec<f64>]) -> (Vec<usize>, Vec<Vec<f64>>) {
    let n = h.len();
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|a, b| h[*b][*b].total_cmp(&h[*a][*a]).then(a.cmp(b)));
    let mut a: Vec<Vec<f64>> =
        order.iter().map(|i| order.iter().map(|j| h[*i][*j]).collect::<Vec<f64>>()).collect();
    for j in (0..n).rev() {
        let pivot = a[j][j];
        let row: Vec<f64> = a[j][..j].iter().map(|value| value / pivot).collect();
        for i in 0..j {
            for k in 0..j {
                a[i][k] -= row[i] * pivot * row[k];
            }
        }
        a[j][..j].copy_from_slice(&row);
    }
    (order, a)
}

/// A matrix by its levels, with frozen scales.
struct Plain<'a> {
    codec: &'static FrozenCodec,
    weights: &'a [f32],
    levels: Vec<u8>,
    scales: Vec<f32>,
    offsets: Vec<f32>,
}

impl<'a> Plain<'a> {
    fn read(dtype: DType, weights: &'a [f32], blocks: &[u8]) -> Plain<'a> {
        let codec = frozen(dtype).unwrap();
        let n = weights.len();
        let (mut levels, mut scales) = (vec![0; n], vec![0.0; n / codec.group]);
        let mut offsets = scales.clone();
        (codec.levels)(blocks, &mut levels);
        (codec.scales)(blocks, &mut scales, &mut offsets);
        Plain { codec, weights, levels, scales, offsets }
    }

    fn error(&self, at: usize, level: u8) -> f64 {
        let group = at / self.codec.group;
        let value = self.scales[group] * self.codec.points.point(level) + self.offsets[group];
        f64::from(self.weights[at] - value)
    }

    fn all_levels(&self) -> std::ops::RangeInclusive<u8> {
        match self.codec.points {
            Points::Steps { lowest, highest, .. } => lowest..=highest,
            Points::Table(_) => 0..=15,
        }
    }

    /// (n_rows, n_columns).
    fn errors(&self) -> Vec<f64> {
        (0..self.levels.len()).map(|at| self.error(at, self.levels[at])).collect()
    }
}

/// `G E H`, (n_rows, n_columns), computed naively.
fn gradients(errors: &[f64], g: &[Vec<f64>], h: &[Vec<f64>]) -> Vec<f64> {
    let (m, n) = (g.len(), h.len());
    let mut right = vec![0.0; m * n];
    for r in 0..m {
        for j in 0..n {
            right[r * n + j] = (0..n).map(|i| errors[r * n + i] * h[i][j]).sum();
        }
    }
    let mut both = vec![0.0; m * n];
    for r in 0..m {
        for s in 0..m {
            for j in 0..n {
                both[r * n + j] += g[r][s] * right[s * n + j];
            }
        }
    }
    both
}

const M: usize = 70;
const N: usize = 96;

/// Each weight, row by row and column by column, has the level of the published formula: the one nearest to
/// `w + (U E V^T) - e`, where `E` contains the errors so far.
#[test]
fn feedback_matches_published_formula() {
    let (inputs, outputs) = (gram(1, N, 300), gram(4, M, 300));
    let weights = Data::Normal.values(7, M * N);
    let options = RoundingOptions { shrinkage: 0.1, damping: 0.01, sweeps: 0, ..RoundingOptions::default() };
    for dtype in [DType::Q4_0, DType::IQ4_NL] {
        let blocks = stock(dtype, &weights, N);
        let mut found = blocks.clone();
        KroneckerRounding::new(&inputs, &outputs, &options)
            .unwrap()
            .refine(dtype, &weights, &mut found)
            .unwrap();
        let (columns, v) = factored(&metric(&inputs, 0.1, 0.01));
        let (rows, u) = factored(&metric(&outputs, f64::from(RoundingOptions::OUTPUT_SHRINKAGE), 0.01));
        let mut plain = Plain::read(dtype, &weights, &blocks);
        // Rows of E so far, columns by place: errors, and U E.
        let (mut errors, mut mixed) = (vec![vec![0.0; N]; M], vec![vec![0.0; N]; M]);
        for r in 0..M {
            for c in 0..N {
                let at = rows[r] * N + columns[c];
                let shift: f64 = (0..r).map(|i| u[r][i] * errors[i][c]).sum();
                let carried: f64 = (0..c).map(|i| v[c][i] * mixed[r][i]).sum();
                let target = |level: u8| (plain.error(at, level) + shift + carried).abs();
                let best = plain.all_levels().min_by(|a, b| target(*a).total_cmp(&target(*b))).unwrap();
                plain.levels[at] = best;
                errors[r][c] = plain.error(at, best);
                mixed[r][c] = errors[r][c] + shift;
            }
        }
        // No weight of 6720 is near enough to a tie for single precision to decide differently; such a weight
        // would change all later ones.
        let found = Plain::read(dtype, &weights, &found);
        let n_others = found.levels.iter().zip(&plain.levels).filter(|(a, b)| a != b).count();
        assert_eq!(n_others, 0, "{dtype}");
    }
}

#[test]
fn descent_ends_at_single_level_optimum() {
    let (inputs, outputs) = (gram(11, N, 300), gram(14, M, 300));
    let weights = Data::Normal.values(17, M * N);
    let options = RoundingOptions {
        shrinkage: 0.3,
        output_shrinkage: Some(0.2),
        damping: 0.01,
        sweeps: 60,
        feedback: false,
        ..RoundingOptions::default()
    };
    let (h, g) = (metric(&inputs, 0.3, 0.01), metric(&outputs, 0.2, 0.01));
    for dtype in [DType::Q4_0, DType::Q5_1, DType::IQ4_NL] {
        let mut blocks = stock(dtype, &weights, N);
        KroneckerRounding::new(&inputs, &outputs, &options)
            .unwrap()
            .refine(dtype, &weights, &mut blocks)
            .unwrap();
        let plain = Plain::read(dtype, &weights, &blocks);
        let errors = plain.errors();
        let gradients = gradients(&errors, &g, &h);
        for (at, (error, gradient)) in errors.iter().zip(&gradients).enumerate() {
            let (r, c) = (at / N, at % N);
            for level in plain.all_levels() {
                let change = plain.error(at, level) - error;
                let cost = change * (2.0 * gradient + g[r][r] * h[c][c] * change);
                assert!(cost > -1e-5 * g[r][r] * h[c][c], "{dtype}: row {r}, column {c}: {cost}");
            }
        }
    }
}

#[test]
fn divergences_match_explicit_sums() {
    let (inputs, outputs) = (gram(21, N, 40), gram(24, M, 50));
    let weights = Data::Normal.values(27, M * N);
    for dtype in [DType::Q4_0, DType::Q8_0] {
        let blocks = stock(dtype, &weights, N);
        let errors = Plain::read(dtype, &weights, &blocks).errors();
        let plain = |gram: &Gram| -> Vec<Vec<f64>> {
            gram.sums()
                .chunks(gram.n_columns())
                .map(|row| row.iter().map(|x| f64::from(*x)).collect())
                .collect()
        };
        let gradients = gradients(&errors, &plain(&outputs), &plain(&inputs));
        let expected: f64 = errors.iter().zip(&gradients).map(|(a, b)| a * b).sum::<f64>() / (40.0 * 50.0);
        let found = divergence(&inputs, &outputs, dtype, &weights, &blocks).unwrap();
        assert!((found / expected - 1.0).abs() < 1e-4, "{dtype}: {found}, {expected}");
    }
}

/// The Kronecker error falls for every type, below that of one-sided rounding.
#[test]
fn output_statistics_lower_the_kronecker_error() {
    const N: usize = 256;
    let (inputs, outputs) = (gram(31, N, 700), gram(34, M, 400));
    let weights = Data::Normal.values(37, M * N);
    let options =
        RoundingOptions { shrinkage: 0.0, output_shrinkage: Some(0.0), ..RoundingOptions::default() };
    for row in FROZEN {
        let dtype = row.dtype;
        let blocks = stock(dtype, &weights, N);
        let error = |blocks: &[u8]| divergence(&inputs, &outputs, dtype, &weights, blocks).unwrap();
        let mut one = blocks.clone();
        Rounding::for_type(&inputs, &options, dtype).unwrap().refine(dtype, &weights, &mut one).unwrap();
        let mut both = one.clone();
        let sides = KroneckerRounding::new(&inputs, &outputs, &options).unwrap();
        sides.refine(dtype, &weights, &mut both).unwrap();
        assert!(KroneckerRounding::supports(dtype));
        assert!(error(&one) < error(&blocks), "{dtype}");
        assert!(error(&both) < 0.9 * error(&one), "{dtype}: {} by one side, {}", error(&one), error(&both));
        // Sweeps lower the cost from any start.
        let sweep = RoundingOptions { feedback: false, sweeps: 1, damping: 0.0, ..options };
        let (sides, mut before) = (KroneckerRounding::new(&inputs, &outputs, &sweep).unwrap(), error(&one));
        for sweep in 0..3 {
            sides.refine(dtype, &weights, &mut one).unwrap();
            let after = error(&one);
            assert!(after <= before * 1.000_01, "{dtype}, sweep {sweep}: {before} to {after}");
            before = after;
        }
    }
}

#[test]
fn bytes_do_not_depend_on_threads_or_level() {
    const N: usize = 256;
    let (inputs, outputs) = (gram(41, N, 300), gram(44, M, 300));
    let weights = Data::Normal.values(47, M * N);
    let levels = Level::available();
    gguf_testkit::require_levels(&levels.iter().map(|level| level.name()).collect::<Vec<_>>());
    for dtype in [DType::Q4_K, DType::IQ4_XS, DType::Q2_K] {
        let blocks = stock(dtype, &weights, N);
        let refined = |level| {
            let options = RoundingOptions { level, ..RoundingOptions::default() };
            let mut blocks = blocks.clone();
            KroneckerRounding::new(&inputs, &outputs, &options)
                .unwrap()
                .refine(dtype, &weights, &mut blocks)
                .unwrap();
            blocks
        };
        let expected = refined(Level::Scalar);
        assert!(expected != blocks);
        for &level in &levels {
            for n_threads in [1, 2, 3, 7] {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(n_threads).build().unwrap();
                let found = pool.install(|| refined(level));
                assert!(found == expected, "{dtype}, {level:?}, {n_threads} threads");
            }
        }
    }
}

#[test]
fn unused_rows_and_mismatched_lengths_are_handled() {
    let inputs = gram(51, N, 300);
    let mut sums = gram(54, M, 300).sums().to_vec();
    // The output of row 5 has no effect; row 40 behaves like row 41.
    for i in 0..M {
        sums[5 * M + i] = 0.0;
        sums[i * M + 5] = 0.0;
    }
    for i in 0..M {
        sums[40 * M + i] = sums[41 * M + i];
    }
    for i in 0..M {
        sums[i * M + 40] = sums[i * M + 41];
    }
    let outputs = Gram::from_sums(M, 300, sums).unwrap();
    let weights = Data::Normal.values(57, M * N);
    let blocks = stock(DType::Q4_0, &weights, N);
    let error = |blocks: &[u8]| divergence(&inputs, &outputs, DType::Q4_0, &weights, blocks).unwrap();
    for (output_shrinkage, damping) in [(0.0, 0.0), (0.0, 0.01), (0.2, 0.01), (1.0, 0.0)] {
        let options = RoundingOptions {
            output_shrinkage: Some(output_shrinkage),
            damping,
            ..RoundingOptions::default()
        };
        let mut found = blocks.clone();
        let sides = KroneckerRounding::new(&inputs, &outputs, &options).unwrap();
        sides.refine(DType::Q4_0, &weights, &mut found).unwrap();
        assert!(error(&found) < error(&blocks), "shrinkage {output_shrinkage}, damping {damping}");
    }
    let options = RoundingOptions::default();
    let sides = KroneckerRounding::new(&inputs, &outputs, &options).unwrap();
    let refine = |dtype, n_weights, n_bytes| {
        sides.refine(dtype, &vec![0.0; n_weights], &mut vec![0; n_bytes]).unwrap_err().to_string()
    };
    assert_eq!(refine(DType::Q4_0, N, 54), "rows of a matrix: expected 70, found 1");
    assert_eq!(refine(DType::F16, N, 2 * N), "rounding f16 is not supported");
    assert!(!KroneckerRounding::supports(DType::F16) && !KroneckerRounding::supports(DType::IQ2_XS));
    let nothing = Gram::new(M);
    assert!(matches!(KroneckerRounding::new(&inputs, &nothing, &options), Err(Error::NoTokens)));
    assert!(divergence(&inputs, &nothing, DType::Q4_0, &weights, &blocks).is_err());
    assert!(divergence(&inputs, &outputs, DType::Q4_0, &weights[N..], &blocks[54..]).is_err());
}
