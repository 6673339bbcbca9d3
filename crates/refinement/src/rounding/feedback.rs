//! Error feedback: rounds column after column and carries the error on.

use gguf_products::matmul;
use gguf_quant::Level;
use ndarray::{Array2, ArrayViewMut2, Axis, s};

use super::{
    PANEL,
    factor::Factor,
    lanes::{LANES, Lanes, Nearest, add_products, lanes, lanes_mut},
    tile::Tile,
};

/// Rounds all columns of a tile in the factor's order. With the errors `e` of earlier columns, column `j` is
/// rounded to the level nearest to `w_j + sum_{i<j} V[j, i] e_i`.
pub fn round(level: Level, factor: &Factor, nearest: &impl Nearest, tile: &mut Tile) {
    let (n_columns, n_lanes) = (tile.n_columns(), tile.n_lanes());
    // Errors in the factor's order: (n_columns, n_lanes).
    let mut errors = Array2::<f32>::zeros((n_columns, n_lanes));
    // Corrections from earlier panels: (PANEL, n_lanes).
    let mut carried = Array2::<f32>::zeros((PANEL.min(n_columns), n_lanes));
    for first in (0..n_columns).step_by(PANEL) {
        let end = n_columns.min(first + PANEL);
        let (before, rest) = errors.view_mut().split_at(Axis(0), first);
        // (panel, earlier) x (earlier, n_lanes); empty for the first panel.
        let mut carried = carried.slice_mut(s![..end - first, ..]);
        matmul(
            level,
            false,
            1.0,
            factor.v().slice(s![first..end, ..first]),
            before.view(),
            carried.view_mut(),
        );
        let panel = rest.split_at(Axis(0), end - first).0;
        level.vectorize(
            #[inline(always)]
            || round_panel(level, factor, nearest, tile, first, carried, panel),
        );
    }
    // Back to file order.
    for (place, errors) in errors.outer_iter().enumerate() {
        tile.errors_mut().row_mut(factor.order()[place]).assign(&errors);
    }
}

/// Rounds the columns from place `first` on: `carried` (columns, n_lanes) is the input, `errors` of the same
/// shape the output.
#[inline(always)]
fn round_panel(
    level: Level,
    factor: &Factor,
    nearest: &impl Nearest,
    tile: &mut Tile,
    first: usize,
    mut carried: ArrayViewMut2<'_, f32>,
    mut errors: ArrayViewMut2<'_, f32>,
) {
    let (n, n_lanes) = carried.dim();
    let carried = carried.as_slice_mut().expect("whole rows");
    let errors = errors.as_slice_mut().expect("whole rows");
    let mut sums = [[0.0; LANES]; PANEL];
    for lane in (0..n_lanes).step_by(LANES) {
        for (j, sum) in sums[..n].iter_mut().enumerate() {
            *sum = *lanes(carried, j * n_lanes + lane);
        }
        for j in 0..n {
            let (sum, pending) = sums[j..n].split_first_mut().expect("column `j` is one of them");
            let (column, points, _) = tile.column(factor.order()[first + j], lane);
            let mut target: Lanes = *column.weights;
            for i in 0..LANES {
                target[i] += sum[i];
            }
            let (found, error) = column.nearest(nearest, &target, points);
            *points = found;
            *lanes_mut(errors, j * n_lanes + lane) = error;
            add_products(level, pending, &factor.within(first + j)[j + 1..], &error);
        }
    }
}
