//! The left side: rows that kernels read in place, or copied if they are not contiguous.

use fearless_simd::{Simd, SimdBase};
use fearless_simd_macros::simd;
use ndarray::ArrayView2;

use crate::{BLOCK, panels::transposed};

/// Floats between copied rows: not a power of two, so that rows do not share few sets of the first-level
/// cache.
pub(crate) const STRIDE: usize = BLOCK + 16;

/// Copies `a` (rows, n_k), `n_k` at most [`BLOCK`], to rows [`STRIDE`] apart.
#[simd]
pub(crate) fn copy<S: Simd>(simd: S, a: ArrayView2<'_, f32>, out: &mut [f32]) {
    let (n_rows, n_k) = a.dim();
    let (mut rows_done, mut k_done) = (0, 0);
    if a.strides()[0] == 1 {
        // The transpose of contiguous rows: squares of 4 x 4.
        (rows_done, k_done) = (n_rows - n_rows % 4, n_k - n_k % 4);
        for k in (0..k_done).step_by(4) {
            let column = |t: usize| a.column(k + t).to_slice().expect("the stride between rows is 1");
            let columns = [column(0), column(1), column(2), column(3)];
            for row in (0..rows_done).step_by(4) {
                for (t, values) in transposed(simd, columns, row).into_iter().enumerate() {
                    let at = (row + t) * STRIDE + k;
                    values.store_slice(&mut out[at..at + 4]);
                }
            }
        }
    }
    for row in 0..n_rows {
        let first = if row < rows_done { k_done } else { 0 };
        for k in first..n_k {
            out[row * STRIDE + k] = a[[row, k]];
        }
    }
}
