//! Rounding of types that code eight columns at a time with a codebook (`gguf_quant::codebook`), with fixed scales.
//!
//! The two passes for single columns, with eight columns as the unit. With everything else fixed, eight
//! columns cost `(t - v) M (t - v)^T` for a target `t`, their values `v = scale * magnitude * sign` and a
//! metric `M` (8, 8):
//!
//! - feedback: `H = V^T D V` in an order that keeps groups of eight together, `M = V_8^T D_8 V_8` of their
//!   part, and `t = w + y` where
//!   `V_8 y` is the correction from earlier columns;
//! - descent: `M` is their part of `H`, and `t = v + M^-1 g` with `g = H e`.
//!
//! The best point by the diagonal of `M` is found among all (`codebook_search`). From there, steps that use all of `M`
//! move to better points while there are any.
#![expect(clippy::needless_range_loop, reason = "lanes walk several arrays by one index")]

use gguf_products::matmul;
use gguf_quant::{
    Level,
    codebook::{COLUMNS, Choice, CodebookCodec},
};
use ndarray::{Array2, s};

use super::{
    PANEL,
    codebook_search::{Found, Search},
    factor::Factor,
    lanes::{LANES, Lanes, add_products, lanes, lanes_mut},
    metric::Metric,
};

/// Steps from the best point by the diagonal to the best by the full metric.
const STEPS: usize = 3;

type Eight = [Lanes; COLUMNS];
/// (8, 8).
type Small = [[f32; COLUMNS]; COLUMNS];

/// Rows of a matrix, transposed: (columns or groups, n_lanes), row-major, padded with zero rows to a multiple
/// of the lanes.
#[derive(Debug)]
pub struct CodebookTile {
    n_columns: usize,
    n_lanes: usize,
    group: usize,
    weights: Vec<f32>,
    /// `weight - value`.
    errors: Array2<f32>,
    scales: Vec<f32>,
    /// (n_columns / 8, n_lanes).
    choices: Vec<Choice>,
    sound: Vec<bool>,
}

impl CodebookTile {
    /// Reads rows of matching lengths.
    pub fn read(codec: &CodebookCodec, weights: &[f32], blocks: &[u8], n_columns: usize) -> CodebookTile {
        let n_rows = weights.len() / n_columns;
        let n_lanes = n_rows.next_multiple_of(LANES);
        let (n_groups, n_groups_of_eight) = (n_columns / codec.group, n_columns / COLUMNS);
        let mut tile = CodebookTile {
            n_columns,
            n_lanes,
            group: codec.group,
            weights: vec![0.0; n_columns * n_lanes],
            errors: Array2::zeros((n_columns, n_lanes)),
            scales: vec![0.0; n_groups * n_lanes],
            choices: vec![Choice::default(); n_groups_of_eight * n_lanes],
            sound: Vec::with_capacity(n_rows),
        };
        let (mut scales, mut choices) = (vec![0.0; n_groups], vec![Choice::default(); n_groups_of_eight]);
        let mut values = vec![0.0; n_columns];
        let rows = weights.chunks_exact(n_columns).zip(blocks.chunks_exact(blocks.len() / n_rows));
        for (lane, (weights, blocks)) in rows.enumerate() {
            (codec.scales)(blocks, &mut scales);
            (codec.choices)(blocks, &mut choices);
            for (eight, values) in values.chunks_exact_mut(COLUMNS).enumerate() {
                let (choice, scale) = (choices[eight], scales[eight * COLUMNS / codec.group]);
                let magnitudes = codec.codebook.magnitudes(choice.points);
                for (i, value) in values.iter_mut().enumerate() {
                    let sign = if choice.signs >> i & 1 == 1 { -1.0 } else { 1.0 };
                    *value = scale * f32::from(magnitudes[i]) * sign;
                }
            }
            let sound = weights.iter().zip(&values).all(|(weight, value)| (weight - value).is_finite());
            tile.sound.push(sound);
            if !sound {
                continue;
            }
            for (column, (weight, value)) in weights.iter().zip(&values).enumerate() {
                tile.weights[column * n_lanes + lane] = *weight;
                tile.errors[[column, lane]] = weight - value;
            }
            for (group, scale) in scales.iter().enumerate() {
                tile.scales[group * n_lanes + lane] = *scale;
            }
            for (eight, choice) in choices.iter().enumerate() {
                tile.choices[eight * n_lanes + lane] = *choice;
            }
        }
        tile
    }

    /// Packs the choices into the original blocks.
    pub fn write(&self, codec: &CodebookCodec, blocks: &mut [u8]) {
        let mut choices = vec![Choice::default(); self.n_columns / COLUMNS];
        let row_bytes = blocks.len() / self.sound.len();
        for (lane, blocks) in
            blocks.chunks_exact_mut(row_bytes).enumerate().filter(|(lane, _)| self.sound[*lane])
        {
            for (choice, lane_choices) in choices.iter_mut().zip(self.choices.chunks_exact(self.n_lanes)) {
                *choice = lane_choices[lane];
            }
            (codec.put_choices)(&choices, blocks);
        }
    }

    #[inline(always)]
    fn weights(&self, column: usize, lane: usize) -> Eight {
        std::array::from_fn(|i| *lanes(&self.weights, (column + i) * self.n_lanes + lane))
    }

    #[inline(always)]
    fn errors(&self, column: usize, lane: usize) -> Eight {
        let errors = self.errors.as_slice().expect("row-major");
        std::array::from_fn(|i| *lanes(errors, (column + i) * self.n_lanes + lane))
    }

    #[inline(always)]
    fn scales(&self, column: usize, lane: usize) -> Lanes {
        *lanes(&self.scales, column / self.group * self.n_lanes + lane)
    }

    /// Applies a candidate in the lanes selected by `taken`: choices and errors.
    #[inline(always)]
    fn put(&mut self, search: &Search, column: usize, lane: usize, found: &Candidate, taken: &[bool; LANES]) {
        let at = column / COLUMNS * self.n_lanes + lane;
        for (row, taken) in taken.iter().enumerate() {
            if *taken {
                self.choices[at + row] = search.choice(&found.found, row);
            }
        }
    }
}

/// A candidate for eight columns of sixteen rows.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    found: Found,
    /// `weight - value`.
    errors: Eight,
    /// `(t - v) M (t - v)^T`.
    cost: Lanes,
}

/// `x M x^T`, and `M x`.
#[inline(always)]
fn cost(metric: &Small, x: &Eight) -> (Lanes, Eight) {
    let (mut sum, mut products) = ([0.0; LANES], [[0.0; LANES]; COLUMNS]);
    for i in 0..COLUMNS {
        for j in 0..COLUMNS {
            for lane in 0..LANES {
                products[i][lane] += metric[i][j] * x[j][lane];
            }
        }
        for lane in 0..LANES {
            sum[lane] += x[i][lane] * products[i][lane];
        }
    }
    (sum, products)
}

struct Goal<'a> {
    search: &'a Search,
    metric: &'a Small,
    weights: Eight,
    /// `t - w`: the target relative to the weights.
    beyond: Eight,
    scales: Lanes,
}

impl Goal<'_> {
    /// The point nearest to `target` by a diagonal, with its cost by the full metric.
    #[inline(always)]
    fn candidate(&self, target: &Eight, diagonal: &[f32; COLUMNS]) -> (Candidate, Eight) {
        let mut steps = [[0.0; LANES]; COLUMNS];
        for i in 0..COLUMNS {
            for lane in 0..LANES {
                steps[i][lane] = target[i][lane] / self.scales[lane];
            }
        }
        let found = self.search.nearest(&steps, diagonal);
        let values = self.search.values(&found, &self.scales);
        let (mut errors, mut left) = ([[0.0; LANES]; COLUMNS], [[0.0; LANES]; COLUMNS]);
        for i in 0..COLUMNS {
            for lane in 0..LANES {
                errors[i][lane] = self.weights[i][lane] - values[i][lane];
                left[i][lane] = errors[i][lane] + self.beyond[i][lane];
            }
        }
        let (cost, slope) = cost(self.metric, &left);
        (Candidate { found, errors, cost }, slope)
    }

    /// The best point found from the weights and from the current errors, if any.
    #[inline(always)]
    fn best(&self) -> Candidate {
        let mut target = [[0.0; LANES]; COLUMNS];
        for i in 0..COLUMNS {
            for lane in 0..LANES {
                target[i][lane] = self.weights[i][lane] + self.beyond[i][lane];
            }
        }
        let diagonal: [f32; COLUMNS] = std::array::from_fn(|i| self.metric[i][i]);
        // A diagonal that dominates the metric: a step by it never increases the cost.
        let above: [f32; COLUMNS] = std::array::from_fn(|i| self.metric[i].iter().map(|m| m.abs()).sum());
        let (mut best, mut slope) = self.candidate(&target, &diagonal);
        for step in 0..STEPS {
            // If the metric were that diagonal, v + slope / diagonal would be optimal.
            let weights = if step == 0 { &diagonal } else { &above };
            for i in 0..COLUMNS {
                for lane in 0..LANES {
                    let value = self.weights[i][lane] - best.errors[i][lane];
                    target[i][lane] = value + slope[i][lane] / weights[i];
                }
            }
            let (next, next_slope) = self.candidate(&target, weights);
            for lane in 0..LANES {
                if next.cost[lane] < best.cost[lane] {
                    best.cost[lane] = next.cost[lane];
                    best.found.take(&next.found, lane);
                    for i in 0..COLUMNS {
                        best.errors[i][lane] = next.errors[i][lane];
                        slope[i][lane] = next_slope[i][lane];
                    }
                }
            }
        }
        best
    }
}

/// Rounds all columns of a tile in the factor's order, which keeps groups of eight together.
pub fn feedback(level: Level, factor: &Factor, search: &Search, tile: &mut CodebookTile) {
    let (n_columns, n_lanes) = (tile.n_columns, tile.n_lanes);
    let mut errors = Array2::<f32>::zeros((n_columns, n_lanes));
    let mut carried = Array2::<f32>::zeros((PANEL.min(n_columns), n_lanes));
    for first in (0..n_columns).step_by(PANEL) {
        let n = PANEL.min(n_columns - first);
        let before = errors.slice(s![..first, ..]);
        let mut carried = carried.slice_mut(s![..n, ..]);
        matmul(
            level,
            false,
            1.0,
            factor.v().slice(s![first..first + n, ..first]),
            before,
            carried.view_mut(),
        );
        let carried = carried.as_slice().expect("whole rows");
        let mut panel = errors.slice_mut(s![first..first + n, ..]);
        let panel = panel.as_slice_mut().expect("whole rows");
        level.vectorize(
            #[inline(always)]
            || {
                for lane in (0..n_lanes).step_by(LANES) {
                    let mut sums = [[0.0; LANES]; PANEL];
                    for (j, sum) in sums[..n].iter_mut().enumerate() {
                        *sum = *lanes(carried, j * n_lanes + lane);
                    }
                    for at in (0..n).step_by(COLUMNS) {
                        feedback_of_eight(
                            level,
                            factor,
                            search,
                            tile,
                            (first + at, lane),
                            &mut sums[at..n],
                            |j, errors| {
                                *lanes_mut(panel, (at + j) * n_lanes + lane) = *errors;
                            },
                        );
                    }
                }
            },
        );
    }
    for (place, errors) in errors.outer_iter().enumerate() {
        tile.errors.row_mut(factor.order()[place]).assign(&errors);
    }
}

/// Rounds the eight columns at one place of the order. `sums` are the corrections for them and for the later
/// columns of their panel; `put` receives their errors.
#[inline(always)]
fn feedback_of_eight(
    level: Level,
    factor: &Factor,
    search: &Search,
    tile: &mut CodebookTile,
    (place, lane): (usize, usize),
    sums: &mut [Lanes],
    mut put: impl FnMut(usize, &Lanes),
) {
    let column = factor.order()[place];
    // V_8 (8, 8), and M = V_8^T D_8 V_8.
    let v: Small = std::array::from_fn(|j| {
        std::array::from_fn(|i| match i.cmp(&j) {
            std::cmp::Ordering::Less => factor.v()[[place + j, place + i]],
            std::cmp::Ordering::Equal => 1.0,
            std::cmp::Ordering::Greater => 0.0,
        })
    });
    let metric: Small = std::array::from_fn(|i| {
        std::array::from_fn(|j| (0..COLUMNS).map(|k| v[k][i] * factor.pivot(place + k) * v[k][j]).sum())
    });
    // Solves V_8 y = x by forward substitution.
    let mut beyond = [[0.0; LANES]; COLUMNS];
    for j in 0..COLUMNS {
        beyond[j] = sums[j];
        for i in 0..j {
            for lane in 0..LANES {
                beyond[j][lane] -= v[j][i] * beyond[i][lane];
            }
        }
    }
    let scales = tile.scales(column, lane);
    let goal = Goal { search, metric: &metric, weights: tile.weights(column, lane), beyond, scales };
    let best = goal.best();
    let taken = scales.map(|scale| scale != 0.0);
    tile.put(search, column, lane, &best, &taken);
    let now = tile.errors(column, lane);
    for j in 0..COLUMNS {
        let mut errors = [0.0; LANES];
        for row in 0..LANES {
            errors[row] = if taken[row] { best.errors[j][row] } else { now[j][row] };
        }
        put(j, &errors);
        // Later columns of the panel.
        let column_factors = &factor.within(place + j)[place % PANEL + COLUMNS..];
        add_products(level, &mut sums[COLUMNS..], column_factors, &errors);
    }
}

/// One sweep over all columns of a tile, in file order.
pub fn sweep(level: Level, metric: &Metric, inverses: &[Small], search: &Search, tile: &mut CodebookTile) {
    let (n_columns, n_lanes) = (tile.n_columns, tile.n_lanes);
    let mut gradients = Array2::<f32>::zeros((PANEL.min(n_columns), n_lanes));
    for first in (0..n_columns).step_by(PANEL) {
        let n = PANEL.min(n_columns - first);
        let mut gradients = gradients.slice_mut(s![..n, ..]);
        let h = metric.h().slice(s![first..first + n, ..]);
        matmul(level, false, 1.0, h, tile.errors.view(), gradients.view_mut());
        let gradients = gradients.as_slice().expect("whole rows");
        level.vectorize(
            #[inline(always)]
            || {
                for lane in (0..n_lanes).step_by(LANES) {
                    let mut sums = [[0.0; LANES]; PANEL];
                    for (j, sum) in sums[..n].iter_mut().enumerate() {
                        *sum = *lanes(gradients, j * n_lanes + lane);
                    }
                    for at in (0..n).step_by(COLUMNS) {
                        let column = first + at;
                        let changes = sweep_eight(
                            metric,
                            &inverses[column / COLUMNS],
                            search,
                            tile,
                            (column, lane),
                            &sums[at..n],
                        );
                        for (j, change) in changes.iter().enumerate() {
                            let later = at + COLUMNS;
                            let h = metric.h().row(column + j);
                            let h = &h.to_slice().expect("row-major")[first + later..first + n];
                            add_products(level, &mut sums[later..n], h, change);
                        }
                    }
                }
            },
        );
    }
}

/// Chooses eight columns again, whose gradients start at `sums`, and returns the changes of their errors.
#[inline(always)]
fn sweep_eight(
    metric: &Metric,
    inverse: &Small,
    search: &Search,
    tile: &mut CodebookTile,
    (column, lane): (usize, usize),
    sums: &[Lanes],
) -> Eight {
    let small: Small = std::array::from_fn(|i| std::array::from_fn(|j| metric.h()[[column + i, column + j]]));
    let (now, weights, scales) =
        (tile.errors(column, lane), tile.weights(column, lane), tile.scales(column, lane));
    // The optimum has errors e - M^-1 g, so t - w = M^-1 g - e, and the current point costs g M^-1 g.
    let mut left = [[0.0; LANES]; COLUMNS];
    let mut beyond = [[0.0; LANES]; COLUMNS];
    for i in 0..COLUMNS {
        for j in 0..COLUMNS {
            for row in 0..LANES {
                left[i][row] += inverse[i][j] * sums[j][row];
            }
        }
        for row in 0..LANES {
            beyond[i][row] = left[i][row] - now[i][row];
        }
    }
    let here = cost(&small, &left).0;
    let best = Goal { search, metric: &small, weights, beyond, scales }.best();
    let mut taken = [false; LANES];
    for row in 0..LANES {
        taken[row] = scales[row] != 0.0 && best.cost[row] < here[row];
    }
    tile.put(search, column, lane, &best, &taken);
    let n_lanes = tile.n_lanes;
    let mut changes = [[0.0; LANES]; COLUMNS];
    for i in 0..COLUMNS {
        let errors = tile.errors.as_slice_mut().expect("row-major");
        let errors = lanes_mut(errors, (column + i) * n_lanes + lane);
        for row in 0..LANES {
            changes[i][row] = if taken[row] { best.errors[i][row] - errors[row] } else { 0.0 };
            errors[row] = if taken[row] { best.errors[i][row] } else { errors[row] };
        }
    }
    changes
}

/// Inverses of the 8 x 8 diagonal parts of `H`, in double precision; zeros for a singular part.
pub fn inverses(metric: &Metric) -> Vec<Small> {
    (0..metric.n_columns()).step_by(COLUMNS).map(|first| inverse(metric, first)).collect()
}

/// Gauss-Jordan elimination without pivoting, which a positive definite matrix does not need.
fn inverse(metric: &Metric, first: usize) -> Small {
    let mut a: [[f64; 2 * COLUMNS]; COLUMNS] = std::array::from_fn(|i| {
        std::array::from_fn(|j| match j.checked_sub(COLUMNS) {
            None => f64::from(metric.h()[[first + i, first + j]]),
            Some(j) => f64::from(u8::from(i == j)),
        })
    });
    for pivot in 0..COLUMNS {
        let size = a[pivot][pivot];
        // Columns without input, or explained by others: all eight stay unchanged.
        if size.is_nan() || size <= 1e-9 {
            return [[0.0; COLUMNS]; COLUMNS];
        }
        let row = a[pivot].map(|value| value / size);
        for (i, other) in a.iter_mut().enumerate() {
            let factor = other[pivot];
            for (left, value) in other.iter_mut().zip(&row) {
                *left = if i == pivot { *value } else { *left - factor * value };
            }
        }
    }
    std::array::from_fn(|i| std::array::from_fn(|j| a[i][COLUMNS + j] as f32))
}
