//! Rounding with a Kronecker-factored Hessian (YAQA): rows of a matrix interact.
//!
//! With the input Hessian `H` (like in row-wise rounding) and the output gradient statistics `G` (n_rows,
//! n_rows), shrunk in the same way, an error `E` of the weights costs `tr(G E H E^T)`. For a row whose
//! neighbors are fixed that is the row-wise cost for shifted weights:
//!
//! ```text
//! G_rr (e_r + s_r) H (e_r + s_r)^T + const,    s_r = sum_{i != r} G_ri / G_rr e_i
//! ```
//!
//! 1. **Feedback.** With `G = U^T D U` and `H = V^T D' V` (`factor`) the cost is `sum_rc d_r d'_c ((U E
//!    V^T)_rc)^2`, and the term of row
//!    `r` and column `c` depends only on earlier rows and columns. Rows are rounded in the order of falling `G_rr`, each with
//!    feedback over its columns, for the weights `w_r + sum_{i<r} U_ri e_i`.
//! 2. **Descent.** Each weight takes its best level while all others stay fixed.
//!
//! A tile of rows is processed one panel of columns at a time. Corrections from other rows and columns are
//! matrix products; within a panel, weights are rounded in order. The order does not depend on the
//! number of threads, which share the products.
//!
//! Memory: `H` and `V`, `G` and `U`; weights, points, errors, and errors in the factor's order, each f32.
//!
//! Source: YAQA (Tseng et al., arXiv:2505.22988).

use std::sync::Arc;

use gguf_products::matmul;
use gguf_quant::frozen::{Points, frozen};
use gguf_types::DType;
use ndarray::{Array2, ArrayView2, ArrayViewMut2, Axis, s};
use rayon::prelude::*;

use super::{
    PANEL, Rounding, RoundingOptions, TILE_ROWS,
    factor::Factor,
    lanes::{LANES, Nearest, Steps, Table},
    metric::Metric,
    row_bytes,
    tile::Tile,
};
use crate::{Error, Gram};

/// One number per row of a tile.
type TileRow = [f32; TILE_ROWS];

/// Input and output metrics of a matrix.
#[derive(Debug)]
pub struct KroneckerRounding {
    options: RoundingOptions,
    inputs: Arc<Rounding>,
    /// Rows in order.
    order: Vec<usize>,
    output_factor: Option<Factor>,
    /// (n_rows, n_rows): `G`, rows in the factor's order.
    g: Array2<f32>,
    /// `1 / G_rr` in that order, or 0 if that is 0.
    inverse_diagonal: Vec<f32>,
}

impl KroneckerRounding {
    /// Prepares the rounding of a matrix from its input Hessian and its output gradient statistics.
    /// `shrinkage` applies to the first, `output_shrinkage` to the second; feedback and sweeps to both.
    ///
    /// # Errors
    /// Those of [`Rounding::new`](super::Rounding::new), for either.
    pub fn new(inputs: &Gram, outputs: &Gram, options: &RoundingOptions) -> Result<KroneckerRounding, Error> {
        let inputs = Arc::new(Rounding::new(inputs, &RoundingOptions { feedback: true, ..*options })?);
        KroneckerRounding::with_inputs(inputs, outputs, options)
    }

    /// Like [`new`](Self::new) for inputs that were prepared before, with feedback if the options require it.
    pub(crate) fn with_inputs(
        inputs: Arc<Rounding>,
        outputs: &Gram,
        options: &RoundingOptions,
    ) -> Result<KroneckerRounding, Error> {
        let output_options = RoundingOptions {
            shrinkage: options.output_shrinkage.unwrap_or(RoundingOptions::OUTPUT_SHRINKAGE),
            ..*options
        };
        let outputs = Metric::new(outputs, &output_options)?;
        let order = outputs.order(1);
        // Sweeps do not need the factor.
        let output_factor = options.feedback.then(|| Factor::new(&outputs, order.clone(), &output_options));
        let g = Array2::from_shape_fn((order.len(), order.len()), |(i, j)| outputs.h()[[order[i], order[j]]]);
        let inverse_diagonal = order.iter().map(|row| outputs.inverse_diagonal()[*row]).collect();
        Ok(KroneckerRounding { options: *options, inputs, order, output_factor, g, inverse_diagonal })
    }

    /// True if the type is supported: its columns are not coded eight at a time.
    pub fn supports(dtype: DType) -> bool {
        frozen(dtype).is_some()
    }

    /// Rounds a matrix again: `weights` (n_rows, n_columns); `blocks`, their encoding as `dtype` on entry and
    /// the better one on return. Scales stay unchanged.
    ///
    /// # Errors
    /// For an unsupported type ([`supports`](Self::supports)) and lengths that do not agree.
    pub fn refine(&self, dtype: DType, weights: &[f32], blocks: &mut [u8]) -> Result<(), Error> {
        let (n_columns, order) = (self.inputs.metric.n_columns(), &self.order);
        let row_bytes = row_bytes(dtype, weights, blocks, n_columns)?;
        let codec = frozen(dtype).ok_or(Error::NotRefinable { dtype })?;
        let (found, expected) = (weights.len() / n_columns, order.len());
        if found != expected {
            return Err(Error::Length { quantity: "rows of a matrix", found, expected });
        }
        // Rows in the factor's order.
        let mut sorted = Vec::with_capacity(weights.len());
        let mut sorted_blocks = Vec::with_capacity(blocks.len());
        for row in order {
            sorted.extend_from_slice(&weights[row * n_columns..(row + 1) * n_columns]);
            sorted_blocks.extend_from_slice(&blocks[row * row_bytes..(row + 1) * row_bytes]);
        }
        let mut tile = Tile::read(codec, &sorted, &sorted_blocks, n_columns);
        drop(sorted);
        match codec.points {
            Points::Steps { zero, lowest, highest } => {
                self.round(&Steps::new(zero, lowest, highest), &mut tile);
            }
            Points::Table(table) => self.round(&Table::new(table), &mut tile),
        }
        tile.write(codec, &mut sorted_blocks);
        for (from, row) in sorted_blocks.chunks_exact(row_bytes).zip(order) {
            blocks[row * row_bytes..(row + 1) * row_bytes].copy_from_slice(from);
        }
        Ok(())
    }

    fn round(&self, nearest: &impl Nearest, tile: &mut Tile) {
        if let (Some(input), Some(output)) = (&self.inputs.factor, &self.output_factor) {
            self.feedback((input, output), nearest, tile);
        }
        for _ in 0..self.options.sweeps {
            self.sweep(nearest, tile);
        }
    }

    /// Feedback over all rows and columns in the orders of their factors.
    fn feedback(&self, factors: (&Factor, &Factor), nearest: &impl Nearest, tile: &mut Tile) {
        let (level, n_columns, n_rows) = (self.options.level, tile.n_columns(), self.g.nrows());
        let (v, u) = (factors.0.v(), factors.1.v());
        // (n_columns, rows), columns in the factor's order: errors, corrections from earlier rows, and their
        // sum, which columns pass on.
        let mut errors = Array2::<f32>::zeros((n_columns, n_rows));
        let mut shifts = Array2::<f32>::zeros((n_columns, TILE_ROWS));
        let mut mixed = Array2::<f32>::zeros((n_columns, TILE_ROWS));
        let mut carried = Array2::<f32>::zeros((PANEL.min(n_columns), TILE_ROWS));
        for top in (0..n_rows).step_by(TILE_ROWS) {
            let rows = top..n_rows.min(top + TILE_ROWS);
            let n = rows.len();
            // (columns, earlier rows) x (earlier rows, rows of the tile).
            let before = u.slice(s![rows.clone(), ..top]);
            let shares = shifts.axis_chunks_iter_mut(Axis(0), PANEL).into_par_iter();
            shares.zip(errors.axis_chunks_iter(Axis(0), PANEL).into_par_iter()).for_each(
                |(mut shifts, errors)| {
                    let out = shifts.slice_mut(s![.., ..n]);
                    matmul(level, false, 1.0, errors.slice(s![.., ..top]), before.t(), out);
                },
            );
            for first in (0..n_columns).step_by(PANEL) {
                let end = n_columns.min(first + PANEL);
                let (done, rest) = mixed.view_mut().split_at(Axis(0), first);
                let mut carried = carried.slice_mut(s![..end - first, ..]);
                in_parts(carried.slice_mut(s![.., ..n]), |from, out| {
                    let v = v.slice(s![first + from..first + from + out.nrows(), ..first]);
                    matmul(level, false, 1.0, v, done.slice(s![.., ..n]), out);
                });
                let mixed = rest.split_at(Axis(0), end - first).0;
                let errors = errors.slice_mut(s![first..end, rows.clone()]);
                level.vectorize(
                    #[inline(always)]
                    || {
                        let panel = Panel { first, top, n };
                        self.round_panel(factors, nearest, tile, panel, carried, shifts.view(), mixed, errors)
                    },
                );
            }
        }
        for (place, errors) in errors.outer_iter().enumerate() {
            let column = factors.0.order()[place];
            tile.errors_mut().row_mut(column).slice_mut(s![..n_rows]).assign(&errors);
        }
    }

    /// Rounds the columns from `first` on of the rows from `top` on: `carried` (columns, TILE_ROWS) and
    /// `shifts` (n_columns, TILE_ROWS) are inputs, `mixed` (columns, TILE_ROWS) and `errors` (columns, rows)
    /// are outputs.
    #[inline(always)]
    #[expect(clippy::too_many_arguments, reason = "one loop over everything that a weight depends on")]
    fn round_panel(
        &self,
        (input_factor, output_factor): (&Factor, &Factor),
        nearest: &impl Nearest,
        tile: &mut Tile,
        Panel { first, top, n }: Panel,
        mut carried: ArrayViewMut2<'_, f32>,
        shifts: ArrayView2<'_, f32>,
        mut mixed: ArrayViewMut2<'_, f32>,
        mut errors: ArrayViewMut2<'_, f32>,
    ) {
        let n_panel = carried.nrows();
        for j in 0..n_panel {
            let (mut now, mut pending) = carried.view_mut().split_at(Axis(0), j + 1);
            let now = tile_row_mut(now.row_mut(j).into_slice());
            let mut shift: TileRow = *tile_row(shifts.row(first + j).to_slice());
            let mut error: TileRow = [0.0; TILE_ROWS];
            for group in (0..n).step_by(LANES) {
                let (column, points, _) = tile.column(input_factor.order()[first + j], top + group);
                for i in 0..LANES.min(n - group) {
                    let mut target = *column.weights;
                    for lane in 0..LANES {
                        target[lane] += now[group + lane] + shift[group + lane];
                    }
                    // Sixteen lanes cost no more than the single one that is used.
                    let (found, left) = column.nearest(nearest, &target, points);
                    let row = group + i;
                    (points[i], error[row]) = (found[i], left[i]);
                    let factors: &TileRow = tile_row(Some(output_factor.within(top + row)));
                    // Entries of `within` at and above the diagonal are undefined, so finished rows are
                    // restored.
                    for later in row + 1..n {
                        shift[later] += factors[later] * left[i];
                    }
                }
            }
            let sum = tile_row_mut(mixed.row_mut(j).into_slice());
            for row in 0..TILE_ROWS {
                sum[row] = if row < n { error[row] + shift[row] } else { 0.0 };
            }
            for (column, factor) in
                pending.rows_mut().into_iter().zip(&input_factor.within(first + j)[j + 1..])
            {
                let column = tile_row_mut(column.into_slice());
                for row in 0..TILE_ROWS {
                    column[row] += factor * sum[row];
                }
            }
            for (to, error) in errors.row_mut(j).iter_mut().zip(error) {
                *to = error;
            }
        }
    }

    /// One sweep over all rows in the factor's order, each tile over all columns in file order. With
    /// everything else fixed, the best error of row `r` and column `c` is `e_rc - (G E H)_rc / (G_rr H_cc)`.
    fn sweep(&self, nearest: &impl Nearest, tile: &mut Tile) {
        let (level, n_columns, n_rows) = (self.options.level, tile.n_columns(), self.g.nrows());
        let h = self.inputs.metric.h();
        // (E^T G) of the tile's rows: (n_columns, TILE_ROWS).
        let mut mixed = Array2::<f32>::zeros((n_columns, TILE_ROWS));
        let mut gradients = Array2::<f32>::zeros((PANEL.min(n_columns), TILE_ROWS));
        for top in (0..n_rows).step_by(TILE_ROWS) {
            let n = TILE_ROWS.min(n_rows - top);
            let g = self.g.slice(s![.., top..top + n]);
            let shares = mixed.axis_chunks_iter_mut(Axis(0), PANEL).into_par_iter();
            shares.zip(tile.errors().axis_chunks_iter(Axis(0), PANEL).into_par_iter()).for_each(
                |(mut mixed, errors)| {
                    let out = mixed.slice_mut(s![.., ..n]);
                    matmul(level, false, 1.0, errors.slice(s![.., ..n_rows]), g, out);
                },
            );
            let mut within = Box::new([[0.0; TILE_ROWS]; TILE_ROWS]);
            for i in 0..n {
                for j in 0..n {
                    within[i][j] = self.g[[top + i, top + j]];
                }
            }
            for first in (0..n_columns).step_by(PANEL) {
                let end = n_columns.min(first + PANEL);
                let mut gradients = gradients.slice_mut(s![..end - first, ..]);
                in_parts(gradients.slice_mut(s![.., ..n]), |from, out| {
                    let h = h.slice(s![first + from..first + from + out.nrows(), ..]);
                    matmul(level, false, 1.0, h, mixed.slice(s![.., ..n]), out);
                });
                let mixed = mixed.slice_mut(s![first..end, ..]);
                level.vectorize(
                    #[inline(always)]
                    || self.sweep_panel(nearest, tile, Panel { first, top, n }, &within, gradients, mixed),
                );
            }
        }
    }

    /// Sweeps the columns from `first` on of the rows from `top` on, whose part of `G` is `g`: `gradients`
    /// (columns, TILE_ROWS) of `G E H`, and `mixed` of `G E`, updated with the errors.
    #[inline(always)]
    fn sweep_panel(
        &self,
        nearest: &impl Nearest,
        tile: &mut Tile,
        Panel { first, top, n }: Panel,
        g: &[TileRow; TILE_ROWS],
        mut gradients: ArrayViewMut2<'_, f32>,
        mut mixed: ArrayViewMut2<'_, f32>,
    ) {
        let n_panel = gradients.nrows();
        let inverse_h = &self.inputs.metric.inverse_diagonal()[first..first + n_panel];
        let mut inverse_g = [0.0; TILE_ROWS];
        inverse_g[..n].copy_from_slice(&self.inverse_diagonal[top..top + n]);
        for j in 0..n_panel {
            let h = self.inputs.metric.h().row(first + j);
            let h = &h.to_slice().expect("whole rows")[first..first + n_panel];
            let (mut now, mut pending) = gradients.view_mut().split_at(Axis(0), j + 1);
            let now = tile_row_mut(now.row_mut(j).into_slice());
            let mut change: TileRow = [0.0; TILE_ROWS];
            let mut any = false;
            for group in (0..n).step_by(LANES) {
                let (column, points, errors) = tile.column(first + j, top + group);
                let (mut from, end) = (0, LANES.min(n - group));
                while from < end {
                    let (mut best, mut target) = ([0.0; LANES], [0.0; LANES]);
                    for lane in 0..LANES {
                        let step = now[group + lane] * (inverse_h[j] * inverse_g[group + lane]);
                        best[lane] = errors[lane] - step;
                        target[lane] = column.weights[lane] - best[lane];
                    }
                    let (found, left) = column.nearest(nearest, &target, points);
                    let better = |lane: &usize| {
                        (left[*lane] - best[*lane]).abs() < (errors[*lane] - best[*lane]).abs()
                    };
                    // Rows before the first change are as in sequential order.
                    let Some(lane) = (from..end).find(better) else { break };
                    let (row, by) = (group + lane, left[lane] - errors[lane]);
                    (points[lane], errors[lane]) = (found[lane], left[lane]);
                    (change[row], any) = (by, true);
                    for later in 0..TILE_ROWS {
                        now[later] += (g[row][later] * h[j]) * by;
                    }
                    from = lane + 1;
                }
            }
            if !any {
                continue;
            }
            let mut mixed_change: TileRow = [0.0; TILE_ROWS];
            for (g, by) in g.iter().zip(change).filter(|(_, by)| *by != 0.0) {
                for row in 0..TILE_ROWS {
                    mixed_change[row] += g[row] * by;
                }
            }
            let mixed = tile_row_mut(mixed.row_mut(j).into_slice());
            for row in 0..TILE_ROWS {
                mixed[row] += mixed_change[row];
            }
            for (column, h) in pending.rows_mut().into_iter().zip(&h[j + 1..]) {
                let column = tile_row_mut(column.into_slice());
                for row in 0..TILE_ROWS {
                    column[row] += h * mixed_change[row];
                }
            }
        }
    }
}

/// Columns from `first` on of `n` rows from `top` on.
#[derive(Debug, Clone, Copy)]
struct Panel {
    first: usize,
    top: usize,
    n: usize,
}

/// Rows of a panel's product that a thread computes at once.
const PART_ROWS: usize = 16;

/// Runs `work` on parts of the rows of `out`, each with its first row, on all threads.
fn in_parts(mut out: ArrayViewMut2<'_, f32>, work: impl Fn(usize, ArrayViewMut2<'_, f32>) + Sync) {
    let parts = out.axis_chunks_iter_mut(Axis(0), PART_ROWS).into_par_iter().enumerate();
    parts.for_each(|(part, out)| work(part * PART_ROWS, out));
}

#[inline(always)]
fn tile_row(values: Option<&[f32]>) -> &TileRow {
    values.and_then(|values| values.first_chunk()).expect("tiles are whole rows")
}

#[inline(always)]
fn tile_row_mut(values: Option<&mut [f32]>) -> &mut TileRow {
    values.and_then(|values| values.first_chunk_mut()).expect("tiles are whole rows")
}

/// `tr(G E C E^T) / (n_tokens of both)` with `E = weights - blocks` of a matrix, (n_rows, n_columns) each:
/// about twice the KL divergence that it causes, up to the number of following tokens. Products in single
/// precision, sums in double, in a fixed order.
///
/// # Errors
/// Those of [`output_error`](super::output_error), for either statistics.
pub fn divergence(
    inputs: &Gram,
    outputs: &Gram,
    dtype: DType,
    weights: &[f32],
    blocks: &[u8],
) -> Result<f64, Error> {
    let level = gguf_quant::Level::detect();
    let (n_columns, n_rows) = (inputs.n_columns(), outputs.n_columns());
    super::metric::mean_square(inputs)?;
    super::metric::mean_square(outputs)?;
    row_bytes(dtype, weights, blocks, n_columns)?;
    if weights.len() != n_rows * n_columns {
        let (found, expected) = (weights.len() / n_columns, n_rows);
        return Err(Error::Length { quantity: "rows of a matrix", found, expected });
    }
    let mut errors = Array2::<f32>::zeros((n_rows, n_columns));
    let values = errors.as_slice_mut().expect("whole rows");
    gguf_quant::decode(dtype, level, blocks, values)?;
    values.iter_mut().zip(weights).for_each(|(value, weight)| *value = weight - *value);
    let (c, g) = (inputs.view(), outputs.view());
    let tiles: Vec<f64> = (0..n_rows)
        .into_par_iter()
        .step_by(TILE_ROWS)
        .map(|top| {
            let rows = top..n_rows.min(top + TILE_ROWS);
            // G E of the tile, and E C: the sum of their products is the tile's part of the trace.
            let mut from_outputs = Array2::zeros((rows.len(), n_columns));
            matmul(level, false, 1.0, g.slice(s![rows.clone(), ..]), errors.view(), from_outputs.view_mut());
            let mut from_inputs = Array2::zeros((rows.len(), n_columns));
            matmul(level, false, 1.0, errors.slice(s![rows, ..]), c, from_inputs.view_mut());
            from_outputs.iter().zip(&from_inputs).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>()
        })
        .collect();
    Ok(tiles.iter().sum::<f64>() / (inputs.n_tokens() as f64 * outputs.n_tokens() as f64))
}
