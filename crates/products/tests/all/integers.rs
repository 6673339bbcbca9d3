//! Products of integers in blocks at every level compared with plain loops, bit for bit.

use gguf_products::integers::{BlockForm, Quants, Single, Weights, matmul_integers, multiplies_stored};
use gguf_quant::{IntegerBlocks, Level, decode_integers, integer_form};
use gguf_types::DType;
use ndarray::{Array2, s};

/// A left and a right side, as plain numbers.
struct Case {
    form: BlockForm,
    n_blocks: usize,
    x: Array2<i8>,
    x_scales: Array2<f32>,
    levels: Array2<u8>,
    /// (n, n_blocks * n_scales).
    int_scales: Array2<i16>,
    /// (n, n_blocks * n_minima).
    minima: Array2<i16>,
    scales: Array2<f32>,
    min_scales: Array2<f32>,
}

impl Case {
    fn new(form: BlockForm, (m, n, n_blocks): (usize, usize, usize), seed: u64) -> Case {
        let n_k = n_blocks * form.elems;
        let word = |seed: u64, shape: (usize, usize), (i, j): (usize, usize)| {
            gguf_testkit::mix(seed, (i * shape.1 + j) as u64)
        };
        // The ends of a range among others.
        let integers = |seed: u64, shape, least: i64, most: i64| {
            Array2::from_shape_fn(shape, |at| match word(seed, shape, at) {
                word if word % 5 == 0 => [least, most][(word >> 8) as usize % 2],
                word => least + (word >> 8) as i64 % (most - least + 1),
            })
        };
        let floats = |seed: u64, shape: (usize, usize)| {
            Array2::from_shape_fn(shape, |(i, j)| match word(seed, shape, (i, j)) {
                word if word % 40 == 0 => 0.0,
                _ => gguf_testkit::normal(seed, (i * shape.1 + j) as u64) * 0.01,
            })
        };
        Case {
            form,
            n_blocks,
            x: integers(seed, (m, n_k), -127, 127).mapv(|x| x as i8),
            x_scales: floats(seed + 1, (m, n_blocks)),
            levels: integers(seed + 2, (n, n_k), 0, form.max_level.into()).mapv(|x| x as u8),
            int_scales: integers(seed + 6, (n, n_blocks * form.n_scales), -128, 127).mapv(|x| x as i16),
            minima: integers(seed + 3, (n, n_blocks * form.n_minima), -63, 63).mapv(|x| x as i16),
            scales: floats(seed + 4, (n, n_blocks)),
            min_scales: floats(seed + 5, (n, n_blocks)),
        }
    }

    /// The left side, filled in parts of three rows.
    fn quants(&self, level: Level) -> Quants {
        let mut quants = Quants::zeros(level, self.form, self.x.nrows(), self.x.ncols());
        let mut first = 0;
        for part in quants.parts_mut(3) {
            let rows = first..first + part.values.len() / self.x.ncols().max(1);
            part.values.copy_from_slice(self.x.slice(s![rows.clone(), ..]).to_owned().as_slice().unwrap());
            part.scales
                .copy_from_slice(self.x_scales.slice(s![rows.clone(), ..]).to_owned().as_slice().unwrap());
            part.finish();
            first = rows.end;
        }
        quants
    }

    fn pack(&self, level: Level, weights: &mut Weights) {
        let (n, n_k) = self.levels.dim();
        let packed = weights.pack_rows(level, self.form, n, n_k, |rows, out| {
            fn copy<T: Copy>(to: &mut [T], from: &Array2<T>, rows: std::ops::Range<usize>) {
                to.iter_mut().zip(from.slice(s![rows, ..])).for_each(|(to, from)| *to = *from);
            }
            copy(out.levels, &self.levels, rows.clone());
            copy(out.scales, &self.scales, rows.clone());
            copy(out.int_scales, &self.int_scales, rows.clone());
            copy(out.minima, &self.minima, rows.clone());
            copy(out.min_scales, &self.min_scales, rows);
            Ok::<(), ()>(())
        });
        packed.unwrap();
    }

    /// The right side, unpacked.
    fn taken(&self) -> Taken {
        fn all<T: Copy>(array: &Array2<T>) -> Vec<T> {
            array.iter().copied().collect()
        }
        // Without minima there are no scales for them.
        let min_scales = if self.form.n_minima > 0 { all(&self.min_scales) } else { Vec::new() };
        Taken {
            levels: all(&self.levels),
            scales: all(&self.scales),
            int_scales: all(&self.int_scales),
            minima: all(&self.minima),
            min_scales,
        }
    }

    /// The definition, with the platform's fused multiply-add.
    fn expected(&self) -> Array2<f32> {
        let BlockForm { elems, n_minima, n_scales, offset, .. } = self.form;
        Array2::from_shape_fn((self.x.nrows(), self.levels.nrows()), |(i, j)| {
            let mut total = 0.0f32;
            for p in 0..self.n_blocks {
                let x = |k: usize| i64::from(self.x[[i, p * elems + k]]);
                let int_scale = |k: usize| match elems.checked_div(n_scales) {
                    Some(group) => i64::from(self.int_scales[[j, p * n_scales + k / group]]),
                    None => 1,
                };
                let level = |k: usize| i64::from(self.levels[[j, p * elems + k]]) - i64::from(offset);
                let sum: i64 = (0..elems).map(|k| x(k) * int_scale(k) * level(k)).sum();
                let scale = self.x_scales[[i, p]];
                total = (scale * self.scales[[j, p]]).mul_add(sum as f32, total);
                if let Some(group) = elems.checked_div(n_minima) {
                    let minimum = |k: usize| i64::from(self.minima[[j, p * n_minima + k / group]]);
                    let sum: i64 = (0..elems).map(|k| x(k) * minimum(k)).sum();
                    total = (scale * self.min_scales[[j, p]]).mul_add(sum as f32, total);
                }
            }
            total
        })
    }
}

struct Taken {
    levels: Vec<u8>,
    scales: Vec<f32>,
    int_scales: Vec<i16>,
    minima: Vec<i16>,
    min_scales: Vec<f32>,
}

impl Taken {
    fn lent(&mut self) -> IntegerBlocks<'_> {
        IntegerBlocks {
            levels: &mut self.levels,
            scales: &mut self.scales,
            int_scales: &mut self.int_scales,
            minima: &mut self.minima,
            min_scales: &mut self.min_scales,
        }
    }
}

/// Forms of all types in files, and hostile ones: elements, minima, integer scales, offset, largest level.
const FORMS: [(usize, usize, usize, u8, u8); 13] = [
    (32, 0, 0, 128, 255),
    (32, 0, 0, 8, 15),
    (32, 0, 0, 16, 31),
    (32, 1, 0, 0, 15),
    (32, 1, 0, 0, 31),
    (256, 0, 0, 127, 255),
    (256, 8, 8, 0, 15),
    (256, 8, 8, 0, 31),
    (256, 16, 0, 0, 45),
    (256, 0, 16, 32, 63),
    (256, 0, 8, 128, 255),
    (256, 8, 8, 255, 255),
    (32, 1, 4, 0, 129),
];

#[test]
fn levels_match_definition() {
    let levels = Level::available();
    gguf_testkit::require_levels(&levels.iter().map(|level| level.name()).collect::<Vec<_>>());
    let mut weights = Weights::default();
    for (elems, n_minima, n_scales, offset, max_level) in FORMS {
        let form = BlockForm { elems, n_minima, n_scales, offset, max_level };
        for (at, (m, n, n_blocks)) in [
            (1, 1, 1),
            (2, 16, 3),
            (3, 17, 2),
            (7, 33, 1),
            (8, 40, 20),
            (131, 20, 1),
            (5, 70, 5),
            (0, 3, 1),
            (4, 4, 0),
        ]
        .into_iter()
        .enumerate()
        {
            let case = Case::new(form, (m, n, n_blocks), 10 * at as u64);
            let expected = case.expected();
            for level in &levels {
                let x = case.quants(*level);
                case.pack(*level, &mut weights);
                let mut out = Array2::from_elem((m, n), f32::NAN);
                matmul_integers(&x, 0..m, &weights, out.view_mut());
                for i in 0..m {
                    let mut row = vec![f32::NAN; n];
                    Single::new(&x, i).multiply(*level, &case.taken().lent(), &mut row);
                    for (j, found) in row.iter().enumerate() {
                        assert_eq!(
                            found.to_bits(),
                            expected[[i, j]].to_bits(),
                            "{form:?} {i} {j}, {}",
                            level.name()
                        );
                    }
                }
                // Some of the rows, into some columns of a wider matrix.
                let rows = m / 3..m - m / 4;
                let mut wide = Array2::from_elem((rows.len(), n + 5), 7.0f32);
                matmul_integers(&x, rows.clone(), &weights, wide.slice_mut(s![.., 2..n + 2]));
                let what = format!("{form:?} {m} x {n} x {n_blocks}, {}", level.name());
                for ((i, j), expected) in expected.indexed_iter() {
                    assert_eq!(out[[i, j]].to_bits(), expected.to_bits(), "{what}, {i} {j}");
                    if rows.contains(&i) {
                        assert_eq!(wide[[i - rows.start, j + 2]].to_bits(), expected.to_bits(), "{what}");
                    }
                }
                assert!(wide.slice(s![.., ..2]).iter().chain(wide.slice(s![.., n + 2..])).all(|x| *x == 7.0));
            }
        }
    }
}

#[test]
fn nan_scale_propagates() {
    let form = BlockForm { elems: 32, n_minima: 0, n_scales: 0, offset: 128, max_level: 255 };
    for level in Level::available() {
        let mut case = Case::new(form, (2, 3, 2), 1);
        case.x_scales[[1, 1]] = f32::NAN;
        let mut weights = Weights::default();
        case.pack(level, &mut weights);
        let mut out = Array2::zeros((2, 3));
        matmul_integers(&case.quants(level), 0..2, &weights, out.view_mut());
        assert!(out.row(0).iter().all(|x| x.is_finite()) && out.row(1).iter().all(|x| x.is_nan()));
    }
}

/// Any bits, so that scales have all signs, sizes and non-finite values, compared with these blocks unpacked
/// and packed.
#[test]
fn stored_blocks_match_packed_integers() {
    let mut n_compared = 0;
    for dtype in [DType::Q8_0, DType::Q4_0, DType::Q4_K, DType::Q6_K] {
        let form = integer_form(dtype).unwrap();
        let n_groups = |elems: Option<usize>| elems.map_or(0, |elems| form.block_elems / elems);
        let (n_minima, n_scales) = (n_groups(form.min_elems), n_groups(form.scale_elems));
        let (elems, offset, max_level) = (form.block_elems, form.offset, form.max_level);
        let form = BlockForm { elems, n_minima, n_scales, offset, max_level };
        let row_bytes = |n_blocks: usize| n_blocks * dtype.block_bytes() as usize;
        for (n, n_blocks) in [(1, 1), (7, 3), (8, 2), (19, 5), (3, 0)] {
            let case = Case::new(form, (2, n, n_blocks), 3);
            let bytes = gguf_testkit::bytes(n as u64, n * row_bytes(n_blocks));
            let mut weights = Weights::default();
            let packed = weights.pack_rows(Level::Scalar, form, n, n_blocks * form.elems, |rows, out| {
                let own = rows.start * row_bytes(n_blocks)..rows.end * row_bytes(n_blocks);
                decode_integers(dtype, Level::Scalar, &bytes[own], out)
            });
            packed.unwrap();
            let mut expected = Array2::zeros((2, n));
            matmul_integers(&case.quants(Level::Scalar), 0..2, &weights, expected.view_mut());
            for level in Level::available().into_iter().filter(|level| *level != Level::Scalar) {
                assert!(multiplies_stored(level, dtype));
                let x = case.quants(level);
                for i in 0..2 {
                    let mut out = vec![7.0; n];
                    Single::new(&x, i).multiply_stored(level, dtype, &bytes, &mut out);
                    for (j, found) in out.iter().enumerate() {
                        let expected = expected[[i, j]];
                        let same =
                            found.to_bits() == expected.to_bits() || found.is_nan() && expected.is_nan();
                        assert!(
                            same,
                            "{dtype:?} {n} x {n_blocks}, {i} {j}, {}: {found} {expected}",
                            level.name()
                        );
                        n_compared += usize::from(!expected.is_nan());
                    }
                }
            }
        }
    }
    let n_vector_levels = Level::available().len() - 1;
    assert!(n_compared >= 40 * n_vector_levels, "{n_compared} sums that are not NaN");
}
