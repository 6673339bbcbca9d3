//! Rounding with feedback and descent on matrices with correlated inputs.

use crate::common::{gram, stock};
use gguf_quant::{
    Level,
    codebook::CODEBOOK_CODECS,
    frozen::{FROZEN, FrozenCodec, Points},
};
use gguf_refinement::{Error, Gram, Rounding, RoundingOptions, choose, is_refinable, output_error};
use gguf_testkit::Data;
use gguf_types::DType;

fn refined(gram: &Gram, options: &RoundingOptions, dtype: DType, weights: &[f32], stock: &[u8]) -> Vec<u8> {
    let mut blocks = stock.to_vec();
    Rounding::new(gram, options).unwrap().refine(dtype, weights, &mut blocks).unwrap();
    blocks
}

const PLAIN: fn() -> RoundingOptions = || RoundingOptions {
    shrinkage: 0.0,
    damping: 0.0,
    scale_sweeps: 0,
    sweeps: 1,
    feedback: false,
    ..RoundingOptions::default()
};

#[test]
fn rounding_lowers_error_of_every_type() {
    const N: usize = 256;
    let gram = gram(1, N, 700);
    let weights = Data::Normal.values(2, 20 * N);
    for row in FROZEN {
        let dtype = row.dtype;
        let stock = stock(dtype, &weights, N);
        let error = |blocks: &[u8]| output_error(&gram, dtype, &weights, blocks, N).unwrap();
        let (mut before, mut blocks) = (error(&stock), stock.clone());
        let of_stock = before;
        // Each sweep continues from the previous one.
        for sweep in 0..4 {
            blocks = refined(&gram, &PLAIN(), dtype, &weights, &blocks);
            let after = error(&blocks);
            assert!(after <= before * 1.000_01, "{dtype}, sweep {sweep}: {before} to {after}");
            before = after;
        }
        assert!(before < 0.8 * of_stock, "{dtype}: {of_stock} by the encoder, {before} by descent");
        let options = RoundingOptions { feedback: true, sweeps: 2, damping: 1e-3, ..PLAIN() };
        let with_feedback = error(&refined(&gram, &options, dtype, &weights, &stock));
        assert!(with_feedback < before, "{dtype}: {before} by descent, {with_feedback} with feedback");
    }
}

/// After descent has converged, changing a single level of a row never lowers its error.
#[test]
fn descent_ends_at_single_level_optimum() {
    const N: usize = 256;
    let gram = gram(3, N, 500);
    let weights = Data::Heavy.values(4, 2 * N);
    let options = RoundingOptions { sweeps: 60, ..PLAIN() };
    for row in FROZEN {
        let stock = stock(row.dtype, &weights, N);
        let found = refined(&gram, &options, row.dtype, &weights, &stock);
        let row_bytes = found.len() / 2;
        for (weights, blocks) in weights.chunks(N).zip(found.chunks(row_bytes)) {
            let least = error_of_row(&gram, row, weights, blocks, &levels_of(row, blocks, N));
            let mut levels = levels_of(row, blocks, N);
            for j in 0..N {
                let here = levels[j];
                for level in neighbours(row, here) {
                    levels[j] = level;
                    let error = error_of_row(&gram, row, weights, blocks, &levels);
                    assert!(error >= least * (1.0 - 1e-5), "{}: column {j}: {least} to {error}", row.dtype);
                }
                levels[j] = here;
            }
        }
    }
}

/// The bits of all scales and offsets.
fn scales_of(dtype: DType, blocks: &[u8], n: usize) -> (Vec<u32>, Vec<u32>) {
    let row = gguf_quant::frozen::frozen(dtype).unwrap();
    let (mut scales, mut offsets) = (vec![0.0; n / row.group], vec![0.0; n / row.group]);
    (row.scales)(blocks, &mut scales, &mut offsets);
    let bits = |scales: Vec<f32>| scales.into_iter().map(f32::to_bits).collect();
    (bits(scales), bits(offsets))
}

fn neighbours(row: &FrozenCodec, level: u8) -> Vec<u8> {
    let (lowest, highest) = match row.points {
        Points::Steps { lowest, highest, .. } => (lowest, highest),
        Points::Table(_) => (0, 15),
    };
    let near = [level.checked_sub(1), level.checked_add(1)];
    near.into_iter().flatten().filter(|level| (lowest..=highest).contains(level)).collect()
}

fn levels_of(row: &FrozenCodec, blocks: &[u8], n: usize) -> Vec<u8> {
    let mut levels = vec![0; n];
    (row.levels)(blocks, &mut levels);
    levels
}

/// `e G e^T` of one row in double precision, computed naively.
fn error_of_row(gram: &Gram, row: &FrozenCodec, weights: &[f32], blocks: &[u8], levels: &[u8]) -> f64 {
    let n = weights.len();
    let mut blocks = blocks.to_vec();
    (row.put_levels)(levels, &mut blocks);
    let mut values = vec![0.0; n];
    gguf_quant::decode(row.dtype, Level::Scalar, &blocks, &mut values).unwrap();
    let errors: Vec<f64> = weights.iter().zip(&values).map(|(w, v)| f64::from(w - v)).collect();
    let row_of = |i: usize| -> f64 {
        gram.sums()[i * n..][..n].iter().zip(&errors).map(|(g, e)| f64::from(*g) * e).sum()
    };
    (0..n).filter(|i| errors[*i] != 0.0).map(|i| errors[i] * row_of(i)).sum()
}

/// With four live columns all 16^4 choices of Q4_0 can be tried.
#[test]
fn four_columns_match_exhaustive_search() {
    const N: usize = 32;
    const ALIVE: [usize; 4] = [3, 9, 20, 31];
    let small = gram(5, 4, 40);
    let mut sums = vec![0.0; N * N];
    for (a, i) in ALIVE.into_iter().enumerate() {
        for (b, j) in ALIVE.into_iter().enumerate() {
            sums[i * N + j] = small.sums()[a * 4 + b];
        }
    }
    let gram = Gram::from_sums(N, 40, sums).unwrap();
    let weights = Data::Normal.values(6, 24 * N);
    let stock = stock(DType::Q4_0, &weights, N);
    let options = RoundingOptions { feedback: true, sweeps: 20, damping: 1e-4, ..PLAIN() };
    let found = refined(&gram, &options, DType::Q4_0, &weights, &stock);
    let (mut n_best, mut sum_best, mut sum_found, mut sum_stock) = (0, 0.0, 0.0, 0.0);
    for row in 0..24 {
        let weights = &weights[row * N..][..N];
        let of = |blocks: &[u8]| {
            let mut values = [0.0f32; N];
            gguf_quant::decode(DType::Q4_0, Level::Scalar, &blocks[row * 18..][..18], &mut values).unwrap();
            cost(&small, ALIVE.map(|j| weights[j] - values[j]))
        };
        let mut scale = [0.0f32; 2];
        let codec = gguf_quant::frozen::frozen(DType::Q4_0).unwrap();
        let (scales, offsets) = scale.split_at_mut(1);
        (codec.scales)(&stock[row * 18..][..18], scales, offsets);
        let value = |level: usize| scales[0] * (level as f32 - 8.0);
        let best = (0..1usize << 16)
            .map(|choice| {
                cost(&small, std::array::from_fn(|a| weights[ALIVE[a]] - value(choice >> (4 * a) & 15)))
            })
            .fold(f64::INFINITY, f64::min);
        assert!(best <= of(&found) * (1.0 + 1e-6) && best <= of(&stock) * (1.0 + 1e-6));
        n_best += usize::from(of(&found) <= best * (1.0 + 1e-6));
        (sum_best, sum_found, sum_stock) = (sum_best + best, sum_found + of(&found), sum_stock + of(&stock));
    }
    assert!(n_best >= 8, "the best of all choices in {n_best} of 24 rows");
    assert!(
        sum_found < 0.3 * sum_stock + 0.7 * sum_best,
        "{sum_best} at best, {sum_found}, {sum_stock} by the encoder"
    );
}

fn cost(gram: &Gram, errors: [f32; 4]) -> f64 {
    let of =
        |i: usize, j: usize| f64::from(gram.sums()[i * 4 + j]) * f64::from(errors[i]) * f64::from(errors[j]);
    (0..4).flat_map(|i| (0..4).map(move |j| (i, j))).map(|(i, j)| of(i, j)).sum()
}

#[test]
fn bytes_depend_only_on_the_row() {
    const N: usize = 256;
    let gram = gram(7, N, 300);
    let levels = Level::available();
    gguf_testkit::require_levels(&levels.iter().map(|level| level.name()).collect::<Vec<_>>());
    // Two tiles, the last with an odd number of rows.
    let weights = Data::Normal.values(8, 67 * N);
    for dtype in FROZEN.iter().map(|row| row.dtype) {
        let stock = stock(dtype, &weights, N);
        let options = RoundingOptions { level: Level::Scalar, ..RoundingOptions::default() };
        let expected = refined(&gram, &options, dtype, &weights, &stock);
        assert!(expected != stock);
        let scales = [&stock, &expected].map(|blocks| scales_of(dtype, blocks, 67 * N));
        assert!(scales[0] != scales[1], "{dtype}: scales are searched");
        scales[1].0.iter().chain(&scales[1].1).for_each(|bits| assert!(f32::from_bits(*bits).is_finite()));
        for &level in &levels {
            for n_threads in [1, 2, 3, 7] {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(n_threads).build().unwrap();
                let options = RoundingOptions { level, ..options };
                let found = pool.install(|| refined(&gram, &options, dtype, &weights, &stock));
                assert!(found == expected, "{dtype}, {level:?}, {n_threads} threads");
            }
        }
        let row_bytes = stock.len() / 67;
        let rounding = Rounding::new(&gram, &options).unwrap();
        for row in [0, 63, 66] {
            let mut alone = stock[row * row_bytes..][..row_bytes].to_vec();
            rounding.refine(dtype, &weights[row * N..][..N], &mut alone).unwrap();
            assert!(alone == expected[row * row_bytes..][..row_bytes], "{dtype}, row {row} alone");
        }
    }
}

/// Zero or infinite scales, non-finite weights: their rows or groups stay, other rows are unaffected.
#[test]
fn unroundable_rows_are_unchanged() {
    const N: usize = 256;
    let gram = gram(9, N, 300);
    let weights = Data::Normal.values(10, 3 * N);
    for dtype in FROZEN.iter().map(|row| row.dtype) {
        let stock = stock(dtype, &weights, N);
        let plain = refined(&gram, &RoundingOptions::default(), dtype, &weights, &stock);
        let row_bytes = stock.len() / 3;
        for (bad, what) in [(f32::NAN, "NaN"), (f32::INFINITY, "infinity"), (f32::MAX, "overflow")] {
            let mut weights = weights.clone();
            weights[N + 17] = bad;
            if what == "overflow" {
                weights[N + 18] = -bad;
            }
            let found = refined(&gram, &RoundingOptions::default(), dtype, &weights, &stock);
            assert!(found[..row_bytes] == plain[..row_bytes], "{dtype} {what}");
            assert!(found[2 * row_bytes..] == plain[2 * row_bytes..], "{dtype} {what}");
            if !bad.is_finite() {
                assert!(found[row_bytes..2 * row_bytes] == stock[row_bytes..2 * row_bytes], "{dtype} {what}");
            }
        }
        // Row 1 is all zeros and has no scale.
        let mut empty = weights.clone();
        empty[N..2 * N].fill(0.0);
        let stock = self::stock(dtype, &empty, N);
        let found = refined(&gram, &RoundingOptions::default(), dtype, &weights, &stock);
        assert!(
            found[row_bytes..2 * row_bytes] == stock[row_bytes..2 * row_bytes],
            "{dtype}: scales of zero"
        );
    }
    // Arbitrary bytes: infinite scales, and every other pattern.
    for row in FROZEN {
        let n_bytes = 64 * N / row.dtype.block_elems() as usize * row.dtype.block_bytes() as usize;
        let weights = Data::Nasty.values(12, 64 * N);
        let blocks = gguf_testkit::bytes(11, n_bytes);
        let levels = RoundingOptions { scale_sweeps: 0, ..RoundingOptions::default() };
        let found = refined(&gram, &levels, row.dtype, &weights, &blocks);
        let scales = |blocks: &[u8]| scales_of(row.dtype, blocks, 64 * N);
        assert!(scales(&blocks) == scales(&found), "{}: scales stay", row.dtype);
        // Scale search neither changes zero or non-finite scales nor creates them.
        let found = refined(&gram, &RoundingOptions::default(), row.dtype, &weights, &blocks);
        for (before, after) in scales(&blocks).0.into_iter().zip(scales(&found).0) {
            let kind = |bits: u32| (f32::from_bits(bits) == 0.0, f32::from_bits(bits).is_finite());
            assert_eq!(kind(before), kind(after), "{}: {before:x} to {after:x}", row.dtype);
        }
        let problem = |blocks: &[u8]| gguf_quant::first_bad_block(row.dtype, blocks).map(|bad| bad.block);
        assert!(problem(&found).is_none() || problem(&found) >= problem(&blocks), "{}", row.dtype);
    }
}

#[test]
fn dead_and_repeated_columns_are_handled() {
    const N: usize = 64;
    let full = gram(13, N, 300);
    let mut sums = full.sums().to_vec();
    for i in 0..N {
        for j in 0..N {
            // Column 5 is dead; column 40 equals column 41, so that the moments have no inverse.
            let source = |k: usize| if k == 40 { 41 } else { k };
            let dead = i == 5 || j == 5;
            sums[i * N + j] = if dead { 0.0 } else { full.sums()[source(i) * N + source(j)] };
        }
    }
    let gram = Gram::from_sums(N, 300, sums).unwrap();
    let weights = Data::Normal.values(14, 33 * N);
    for dtype in [DType::Q4_0, DType::Q5_1] {
        let stock = stock(dtype, &weights, N);
        let error = |blocks: &[u8]| output_error(&gram, dtype, &weights, blocks, N).unwrap();
        for (shrinkage, damping) in [(0.0, 0.0), (0.0, 0.01), (0.3, 0.01), (1.0, 0.0)] {
            let options = RoundingOptions { shrinkage, damping, ..RoundingOptions::default() };
            let found = refined(&gram, &options, dtype, &weights, &stock);
            let (before, after) = (error(&stock), error(&found));
            assert!(after < before, "{dtype}, shrinkage {shrinkage}, damping {damping}: {before} to {after}");
        }
    }
}

#[test]
fn empty_moments_are_refused() {
    let options = RoundingOptions::default();
    let of = |n_tokens, sums: Vec<f32>| Gram::from_sums(32, n_tokens, sums).unwrap();
    let new = |gram: &Gram| Rounding::new(gram, &options).map(|_| ()).unwrap_err().to_string();
    let mut sums = gram(15, 32, 50).sums().to_vec();
    assert!(matches!(Rounding::new(&of(0, sums.clone()), &options), Err(Error::NoTokens)));
    assert!(matches!(Rounding::new(&of(9, vec![0.0; 1024]), &options), Err(Error::InputsAreZero)));
    assert!(matches!(Rounding::new(&Gram::new(0), &options), Err(Error::NoTokens)));
    sums[33 * 4] = -1.0;
    assert_eq!(new(&of(9, sums.clone())), "the sum of squares of column 4 is negative");
    sums[32 * 7 + 3] = f32::NAN;
    assert_eq!(new(&of(9, sums)), "the Hessian is not finite at (7, 3)");
    let good = gram(16, 32, 50);
    for (shrinkage, damping) in [(-0.1, 0.0), (1.1, 0.0), (f32::NAN, 0.0), (0.0, -1.0), (0.0, f32::INFINITY)]
    {
        let options = RoundingOptions { shrinkage, damping, ..options };
        assert!(matches!(Rounding::new(&good, &options), Err(Error::RoundingOptions { .. })));
    }
    let rounding = Rounding::new(&good, &options).unwrap();
    let refine = |dtype, n_weights, n_bytes| {
        rounding.refine(dtype, &vec![0.0; n_weights], &mut vec![0; n_bytes]).unwrap_err().to_string()
    };
    assert_eq!(refine(DType::F16, 32, 64), "rounding f16 is not supported");
    assert_eq!(refine(DType::Q4_K, 32, 64), "row length in elements: expected 256, found 32");
    assert_eq!(refine(DType::Q4_0, 33, 18), "weights in elements: expected 64, found 33");
    assert_eq!(refine(DType::Q4_0, 64, 35), "blocks in bytes: expected 36, found 35");
    assert!(rounding.refine(DType::Q4_0, &[], &mut []).is_ok());
    assert!(is_refinable(DType::Q4_0) && !is_refinable(DType::F16));
    assert!(output_error(&of(0, vec![1.0; 1024]), DType::Q4_0, &[0.0; 32], &[0; 18], 32).is_err());
    assert!(output_error(&good, DType::Q4_0, &[0.0; 64], &[0; 36], 64).is_err());
}

#[test]
fn output_errors_match_explicit_sums() {
    const N: usize = 256;
    let gram = gram(17, N, 90);
    let weights = Data::Normal.values(18, 67 * N);
    for row in FROZEN {
        let stock = stock(row.dtype, &weights, N);
        let rows = weights.chunks(N).zip(stock.chunks(stock.len() / 67));
        let expected: f64 = rows
            .map(|(w, blocks)| error_of_row(&gram, row, w, blocks, &levels_of(row, blocks, N)))
            .sum::<f64>()
            / 90.0;
        let found = output_error(&gram, row.dtype, &weights, &stock, N).unwrap();
        assert!((found - expected).abs() < 1e-5 * expected, "{}: {found}, {expected}", row.dtype);
    }
}

#[test]
fn options_are_chosen_on_held_out_tokens() {
    const N: usize = 256;
    let (fit, held) = (gram(19, N, 120), gram(19 + 1000, N, 400));
    let weights = Data::Normal.values(20, 8 * N);
    let stock = stock(DType::Q4_K, &weights, N);
    let of = |shrinkage| RoundingOptions { shrinkage, ..RoundingOptions::default() };
    let candidates = [of(0.0), of(0.3), of(0.6), of(1.0)];
    // Column sizes differ between the two, so only the shared part is valid for both.
    let choice =
        choose(&fit, &fit, DType::Q4_K, &weights, &stock, &candidates).unwrap().expect("better than stock");
    assert_eq!(choice.options.shrinkage, 0.0, "on its own tokens the plain moments are best");
    assert!(choice.error < choice.stock_error);
    // A slightly worse candidate with more shrinkage is preferred, in any position.
    let near = [of(0.3), of(0.3002), of(0.3001), of(1.0)];
    let choice =
        choose(&fit, &fit, DType::Q4_K, &weights, &stock, &near).unwrap().expect("better than stock");
    assert_eq!(choice.options.shrinkage, 0.3002, "of those about as good the one that shrinks most");
    let mut opposite = held.sums().to_vec();
    for (at, sum) in opposite.iter_mut().enumerate() {
        *sum = if at / N == at % N { 1.0 } else { -sum.abs().min(1e-9) };
    }
    let opposite = Gram::from_sums(N, 400, opposite).unwrap();
    let none = choose(&fit, &opposite, DType::Q4_K, &weights, &stock, &candidates[..2]).unwrap();
    assert_eq!(none, None, "where columns have nothing to do with each other the encoder is better");
    assert_eq!(choose(&fit, &held, DType::Q4_K, &weights, &stock, &[]).unwrap(), None);
}

/// With scale search, errors fall further in every sweep, and in no row rise beyond rounding; fitting the
/// blocks' factors lowers them again.
#[test]
fn scale_search_lowers_the_error() {
    const N: usize = 256;
    let gram = gram(21, N, 700);
    let weights = Data::Normal.values(22, 20 * N);
    let (mut n_better, mut of_fit) = (0, 0.0);
    for row in FROZEN {
        let dtype = row.dtype;
        let stock = stock(dtype, &weights, N);
        let row_bytes = stock.len() / 20;
        let of_row = |blocks: &[u8], at: usize| {
            let (weights, blocks) = (&weights[at * N..][..N], &blocks[at * row_bytes..][..row_bytes]);
            error_of_row(&gram, row, weights, blocks, &levels_of(row, blocks, N))
        };
        let error = |blocks: &[u8]| output_error(&gram, dtype, &weights, blocks, N).unwrap();
        let descend = |fit: bool| {
            let mut blocks = stock.clone();
            for sweep in 0..3 {
                let options = RoundingOptions { scale_sweeps: 1, fit, sweeps: 0, ..PLAIN() };
                let before = blocks.clone();
                blocks = refined(&gram, &options, dtype, &weights, &blocks);
                for at in 0..20 {
                    let (before, after) = (of_row(&before, at), of_row(&blocks, at));
                    assert!(
                        after <= before * 1.000_01,
                        "{dtype}, sweep {sweep}, row {at}: {before} to {after}"
                    );
                }
            }
            error(&blocks)
        };
        let frozen =
            error(&refined(&gram, &RoundingOptions { sweeps: 3, ..PLAIN() }, dtype, &weights, &stock));
        let (alone, fitted) = (descend(false), descend(true));
        n_better += usize::from(alone < frozen && fitted < frozen);
        of_fit += (fitted / alone).ln();
    }
    assert!(n_better >= 10, "scales help {n_better} of {} types", FROZEN.len());
    assert!(of_fit < 0.0, "fitted blocks are worse: {}", (of_fit / FROZEN.len() as f64).exp());
}

/// Columns, rows and moments that cannot be searched, with scales that can.
#[test]
fn scales_without_moments_are_unchanged() {
    const N: usize = 256;
    let options = RoundingOptions { damping: 0.0, shrinkage: 0.0, ..RoundingOptions::default() };
    // The second half has no inputs.
    let full = gram(33, N, 300);
    let mut sums = full.sums().to_vec();
    for at in (0..N * N).filter(|at| at / N >= N / 2 || at % N >= N / 2) {
        sums[at] = 0.0;
    }
    let half_dead = Gram::from_sums(N, 300, sums).unwrap();
    let weights = Data::Normal.values(34, 5 * N);
    for row in FROZEN {
        let stock = stock(row.dtype, &weights, N);
        let found = refined(&half_dead, &options, row.dtype, &weights, &stock);
        let error = |blocks: &[u8]| output_error(&half_dead, row.dtype, &weights, blocks, N).unwrap();
        assert!(error(&found) < error(&stock), "{}", row.dtype);
        // Blocks without inputs keep their scales.
        if row.dtype.block_elems() == 32 {
            let (before, after) = (scales_of(row.dtype, &stock, 5 * N), scales_of(row.dtype, &found, 5 * N));
            for of_row in 0..5 {
                let dead = (of_row * N + N / 2) / row.group..(of_row + 1) * N / row.group;
                assert_eq!(before.0[dead.clone()], after.0[dead.clone()], "{}", row.dtype);
                assert_eq!(before.1[dead.clone()], after.1[dead], "{}", row.dtype);
            }
        }
        // A row of zeros, whose scales are zero, among others.
        let mut some = weights.clone();
        some[2 * N..3 * N].fill(0.0);
        let stock = self::stock(row.dtype, &some, N);
        let found = refined(&full, &options, row.dtype, &some, &stock);
        let row_bytes = stock.len() / 5;
        let mut values = vec![1.0; N];
        gguf_quant::decode(row.dtype, Level::Scalar, &found[2 * row_bytes..][..row_bytes], &mut values)
            .unwrap();
        assert!(values.iter().all(|value| *value == 0.0), "{}", row.dtype);
        assert!(gguf_quant::first_bad_block(row.dtype, &found).is_none());
    }
}

#[test]
fn codebook_types_are_rounded() {
    const N: usize = 512;
    let gram = gram(23, N, 700);
    let weights = Data::Normal.values(24, 20 * N);
    for row in CODEBOOK_CODECS {
        let dtype = row.dtype;
        assert!(is_refinable(dtype));
        let stock = stock(dtype, &weights, N);
        let error = |blocks: &[u8]| output_error(&gram, dtype, &weights, blocks, N).unwrap();
        let (mut before, mut blocks) = (error(&stock), stock.clone());
        let of_stock = before;
        for sweep in 0..3 {
            blocks = refined(&gram, &PLAIN(), dtype, &weights, &blocks);
            let after = error(&blocks);
            assert!(after <= before * 1.000_01, "{dtype}, sweep {sweep}: {before} to {after}");
            before = after;
        }
        assert!(before < 0.9 * of_stock, "{dtype}: {of_stock} by the encoder, {before} by descent");
        let options = RoundingOptions { feedback: true, sweeps: 2, damping: 1e-3, ..PLAIN() };
        let blocks = refined(&gram, &options, dtype, &weights, &stock);
        let with_feedback = error(&blocks);
        assert!(with_feedback < before, "{dtype}: {before} by descent, {with_feedback} with feedback");
        let scales = |blocks: &[u8]| {
            let mut scales = vec![0.0; 20 * N / row.group];
            (row.scales)(blocks, &mut scales);
            scales
        };
        assert!(scales(&stock) == scales(&blocks), "{dtype}: scales stay");
        // Every CPU level and any number of threads, a single row, rows that cannot be rounded.
        for level in Level::available() {
            let options = RoundingOptions { level, ..options };
            assert!(refined(&gram, &options, dtype, &weights, &stock) == blocks, "{dtype} {level:?}");
        }
        let row_bytes = stock.len() / 20;
        let mut alone = stock[7 * row_bytes..8 * row_bytes].to_vec();
        let rounding = Rounding::new(&gram, &options).unwrap();
        rounding.refine(dtype, &weights[7 * N..8 * N], &mut alone).unwrap();
        assert!(alone == blocks[7 * row_bytes..8 * row_bytes], "{dtype}: a row alone");
        let mut bad = weights.clone();
        bad[7 * N + 3] = f32::NAN;
        let found = refined(&gram, &options, dtype, &bad, &stock);
        assert!(found[7 * row_bytes..8 * row_bytes] == stock[7 * row_bytes..8 * row_bytes], "{dtype}: NaN");
        assert!(found[..7 * row_bytes] == blocks[..7 * row_bytes], "{dtype}: beside NaN");
        let bytes = gguf_testkit::bytes(25, stock.len());
        let found = refined(&gram, &options, dtype, &weights, &bytes);
        let bits = |blocks: &[u8]| scales(blocks).iter().map(|scale| scale.to_bits()).collect::<Vec<_>>();
        assert!(bits(&bytes) == bits(&found), "{dtype}: scales of any bytes stay");
    }
}
