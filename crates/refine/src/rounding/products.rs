//! Products of matrices whose sums have one order, until the crate `products` is there.

use ndarray::{ArrayView2, ArrayViewMut2};
use quant::Level;

/// Columns of the output that are made at once.
const WIDTH: usize = 16;
/// Rows of the output that are made at once.
const HEIGHT: usize = 4;

/// `out = scale * a b`, or that added to `out`: (m, k) x (k, n). Sums go by ascending `k` with fused steps. Rows of `a` and `out` are
/// contiguous.
pub fn matmul(
    level: Level,
    add: bool,
    scale: f32,
    a: ArrayView2<'_, f32>,
    b: ArrayView2<'_, f32>,
    mut out: ArrayViewMut2<'_, f32>,
) {
    let ((m, k), n) = (a.dim(), b.ncols());
    let mut packed = vec![[0.0f32; WIDTH]; k];
    for first in (0..n).step_by(WIDTH) {
        let width = WIDTH.min(n - first);
        for (i, packed) in packed.iter_mut().enumerate() {
            for j in 0..width {
                packed[j] = b[[i, first + j]];
            }
        }
        for top in (0..m).step_by(HEIGHT) {
            let rows: [&[f32]; HEIGHT] =
                std::array::from_fn(|i| a.row((top + i).min(m - 1)).to_slice().expect("contiguous rows"));
            let sums = level.vectorize(
                #[inline(always)]
                || kernel(rows, &packed),
            );
            for (i, sums) in sums.iter().enumerate().take(m - top) {
                for j in 0..width {
                    let out = &mut out[[top + i, first + j]];
                    *out = if add { *out + scale * sums[j] } else { scale * sums[j] };
                }
            }
        }
    }
}

#[inline(always)]
fn kernel(rows: [&[f32]; HEIGHT], packed: &[[f32; WIDTH]]) -> [[f32; WIDTH]; HEIGHT] {
    let mut sums = [[0.0f32; WIDTH]; HEIGHT];
    for (i, packed) in packed.iter().enumerate() {
        for (sums, row) in sums.iter_mut().zip(rows) {
            for j in 0..WIDTH {
                sums[j] = row[i].mul_add(packed[j], sums[j]);
            }
        }
    }
    sums
}
