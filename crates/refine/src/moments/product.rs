//! The product that second moments are sums of.

use ndarray::{ArrayView2, ArrayViewMut2};
use quant::Level;

/// `out (m, n) += a (m, k) @ b (k, n)`, on the thread that calls.
pub(super) fn add_product(
    _level: Level,
    a: ArrayView2<'_, f32>,
    b: ArrayView2<'_, f32>,
    mut out: ArrayViewMut2<'_, f32>,
) {
    ndarray::linalg::general_mat_mul(1.0, &a, &b, 1.0, &mut out);
}
