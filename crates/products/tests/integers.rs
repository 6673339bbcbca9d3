//! Products of integers in blocks at every level against plain loops, bit for bit.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use ndarray::{Array2, s};
use products::integers::{BlockForm, Quants, Weights, matmul_integers};
use quant::Level;

/// A left and a right side, as plain numbers.
struct Case {
    form: BlockForm,
    n_blocks: usize,
    x: Array2<i8>,
    x_scales: Array2<f32>,
    levels: Array2<i16>,
    /// (n, n_blocks * n_minima).
    minima: Array2<i16>,
    scales: Array2<f32>,
    min_scales: Array2<f32>,
}

impl Case {
    fn new(form: BlockForm, (m, n, n_blocks): (usize, usize, usize), seed: u64) -> Case {
        let n_k = n_blocks * form.elems;
        let word = |seed: u64, shape: (usize, usize), (i, j): (usize, usize)| {
            testkit::mix(seed, (i * shape.1 + j) as u64)
        };
        // The ends of both ranges among all others.
        let integers = |seed: u64, shape, most: i64| {
            Array2::from_shape_fn(shape, |at| match word(seed, shape, at) {
                word if word % 5 == 0 => [most, -most][(word >> 8) as usize % 2],
                word => (word >> 8) as i64 % (most + 1),
            })
        };
        let floats = |seed: u64, shape: (usize, usize)| {
            Array2::from_shape_fn(shape, |(i, j)| match word(seed, shape, (i, j)) {
                word if word % 40 == 0 => 0.0,
                _ => testkit::normal(seed, (i * shape.1 + j) as u64) * 0.01,
            })
        };
        Case {
            form,
            n_blocks,
            x: integers(seed, (m, n_k), 127).mapv(|x| x as i8),
            x_scales: floats(seed + 1, (m, n_blocks)),
            levels: integers(seed + 2, (n, n_k), 4096).mapv(|x| x as i16),
            minima: integers(seed + 3, (n, n_blocks * form.n_minima), 63).mapv(|x| x as i16),
            scales: floats(seed + 4, (n, n_blocks)),
            min_scales: floats(seed + 5, (n, n_blocks)),
        }
    }

    fn quants(&self) -> Quants {
        let scales = self.x_scales.iter().copied().collect();
        Quants::new(self.form, self.x.ncols(), self.x.as_slice().unwrap(), scales)
    }

    fn pack(&self, level: Level, weights: &mut Weights) {
        let group = self.form.elems / self.form.n_minima.max(1);
        let packed =
            weights.pack_rows(level, self.form, self.levels.nrows(), self.levels.ncols(), |rows, out| {
                let levels = self.levels.slice(s![rows.clone(), ..]);
                out.levels.iter_mut().zip(levels).for_each(|(to, from)| *to = (*from).into());
                let scales = self.scales.slice(s![rows.clone(), ..]);
                out.scales.iter_mut().zip(scales).for_each(|(to, from)| *to = *from);
                if self.form.n_minima > 0 {
                    let minima = self.minima.slice(s![rows.clone(), ..]);
                    out.minima.chunks_mut(group).zip(minima).for_each(|(to, from)| to.fill((*from).into()));
                    let scales = self.min_scales.slice(s![rows, ..]);
                    out.min_scales.iter_mut().zip(scales).for_each(|(to, from)| *to = *from);
                }
                Ok::<(), ()>(())
            });
        packed.unwrap();
    }

    /// The definition, by the platform's fused multiply-add.
    fn expected(&self) -> Array2<f32> {
        let BlockForm { elems, n_minima } = self.form;
        Array2::from_shape_fn((self.x.nrows(), self.levels.nrows()), |(i, j)| {
            let mut total = 0.0f32;
            for p in 0..self.n_blocks {
                let x = |k: usize| i64::from(self.x[[i, p * elems + k]]);
                let sum: i64 = (0..elems).map(|k| x(k) * i64::from(self.levels[[j, p * elems + k]])).sum();
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

/// The forms of all types that files have: 32 with and without a minimum, 256 with none, 8 and 16.
const FORMS: [(usize, usize); 5] = [(32, 0), (32, 1), (256, 0), (256, 8), (256, 16)];

#[test]
fn every_level_equals_the_definition() {
    let levels = Level::available();
    testkit::require_levels(&levels.iter().map(|level| level.name()).collect::<Vec<_>>());
    let mut weights = Weights::default();
    for (elems, n_minima) in FORMS {
        let form = BlockForm { elems, n_minima };
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
            let (x, expected) = (case.quants(), case.expected());
            for level in &levels {
                case.pack(*level, &mut weights);
                let mut out = Array2::from_elem((m, n), f32::NAN);
                matmul_integers(&x, 0..m, &weights, out.view_mut());
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
fn a_scale_that_is_no_number_is_seen() {
    let form = BlockForm { elems: 32, n_minima: 0 };
    for level in Level::available() {
        let mut case = Case::new(form, (2, 3, 2), 1);
        case.x_scales[[1, 1]] = f32::NAN;
        let mut weights = Weights::default();
        case.pack(level, &mut weights);
        let mut out = Array2::zeros((2, 3));
        matmul_integers(&case.quants(), 0..2, &weights, out.view_mut());
        assert!(out.row(0).iter().all(|x| x.is_finite()) && out.row(1).iter().all(|x| x.is_nan()));
    }
}
