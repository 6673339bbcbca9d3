//! Coordinate descent on `tr(E H E^T)`.

use gguf_products::matmul;
use gguf_quant::Level;
use ndarray::{Array2, ArrayView2, s};

use super::{
    PANEL,
    lanes::{LANES, Nearest, add_products, lanes},
    metric::Metric,
    tile::Tile,
};

/// One sweep over all columns of a tile, in file order. With the other errors of its row fixed, the best
/// error of column `j` is `e_j - g_j / H[j, j]` with `g = H e`; the nearest level is taken if it is nearer
/// than the current one. `gradients` (PANEL, n_lanes) is scratch space.
pub fn sweep(
    level: Level,
    metric: &Metric,
    nearest: &impl Nearest,
    tile: &mut Tile,
    gradients: &mut Array2<f32>,
) {
    let n_columns = tile.n_columns();
    for first in (0..n_columns).step_by(PANEL) {
        let end = n_columns.min(first + PANEL);
        // g of the panel: (panel, n_columns) x (n_columns, n_lanes). Errors of other panels do not change
        // meanwhile.
        let mut gradients = gradients.slice_mut(s![..end - first, ..]);
        let h = metric.h().slice(s![first..end, ..]);
        matmul(level, false, 1.0, h, tile.errors().view(), gradients.view_mut());
        let within = h.slice(s![.., first..end]);
        let inverse = &metric.inverse_diagonal()[first..end];
        level.vectorize(
            #[inline(always)]
            || sweep_panel(level, within, inverse, nearest, tile, first, gradients.view()),
        );
    }
}

/// The columns from `first` on, whose part of `H` is `h` (columns, columns) and whose gradients are (columns,
/// n_lanes).
#[inline(always)]
fn sweep_panel(
    level: Level,
    h: ArrayView2<'_, f32>,
    inverse_diagonal: &[f32],
    nearest: &impl Nearest,
    tile: &mut Tile,
    first: usize,
    gradients: ArrayView2<'_, f32>,
) {
    let (n, n_lanes) = gradients.dim();
    let gradients = gradients.to_slice().expect("whole rows");
    let mut sums = [[0.0; LANES]; PANEL];
    for lane in (0..n_lanes).step_by(LANES) {
        for (j, sum) in sums[..n].iter_mut().enumerate() {
            *sum = *lanes(gradients, j * n_lanes + lane);
        }
        for j in 0..n {
            let (sum, pending) = sums[j..n].split_first_mut().expect("column `j` is one of them");
            let (column, points, errors) = tile.column(first + j, lane);
            // The best error, and the value that gives it.
            let (mut best, mut target) = ([0.0; LANES], [0.0; LANES]);
            for i in 0..LANES {
                best[i] = errors[i] - sum[i] * inverse_diagonal[j];
                target[i] = column.weights[i] - best[i];
            }
            let (found, left) = column.nearest(nearest, &target, points);
            let mut change = [0.0; LANES];
            let mut any = false;
            for i in 0..LANES {
                let better = (left[i] - best[i]).abs() < (errors[i] - best[i]).abs();
                change[i] = if better { left[i] - errors[i] } else { 0.0 };
                points[i] = if better { found[i] } else { points[i] };
                errors[i] = if better { left[i] } else { errors[i] };
                any |= better;
            }
            // In later sweeps most columns stay the same in all rows.
            if any {
                let h = h.row(j);
                add_products(level, pending, &h.to_slice().expect("whole rows")[j + 1..], &change);
            }
        }
    }
}
