//! Products of f32 matrices with a fixed order of summation: the same bits on every CPU and for any number of
//! threads.
//!
//! ```text
//! a (m, k), b (k, n), out (m, n); K = 256 rows of b are a block
//!
//! s_p(i, j) = fma(a_il, b_lj, .. fma(a_i0, b_0j, 0))       l over the columns of block p, ascending
//! out_ij    = ((out_ij + scale s_0) + scale s_1) + ..      `out_ij +` only with `add`; blocks ascending
//! ```
//!
//! `fma` rounds once; other operations are not contracted. [`matmul`] at [`Level::Scalar`](gguf_quant::Level)
//! computes this in plain loops, and every level equals it bit for bit, except for the sign and payload of
//! NaN. An element depends only on its row, its column and `k`: other rows and columns of a call and strides
//! do not change it, so callers may split products freely.
//!
//! Why not a library: such products (error feedback, second moments) determine the contents of quantized
//! files, and Rust's matrix libraries choose blocks and kernels by the caches and instructions they find, so
//! that another machine would write another file. Here a vector lane is a column of `out`, so vector width
//! changes no sum. The right side is packed once for all threads ([`Right`]), while a library packs it in
//! every call, and the left side is not packed if its rows are contiguous. The speed was not compared with
//! that of the library used before; this crate compiles in seconds, the library took two minutes of CPU time
//! (docs/notes/building.md).
//!
//! Everything runs on the calling thread; callers split work across threads.
//!
//! Block scheme: Goto and van de Geijn, "Anatomy of high-performance matrix multiplication" (2008), without
//! packing of the left side.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr, clippy::exit))]
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]
#![expect(clippy::needless_range_loop, reason = "kernels walk several arrays by one index")]

mod blocked;
pub mod integers;
mod left;
mod panels;
mod right;
mod row;
mod scalar;
mod tile;

use gguf_quant::{Level, Vectors};
use ndarray::{ArrayView2, ArrayViewMut2, s};

pub use right::Right;
pub use row::multiply_row;
pub use scalar::fused;

/// Number of rows of the right side whose products are added up separately before they are added to `out`.
pub const BLOCK: usize = 256;

/// `a (m, k) @ b (k, n) * scale -> out (m, n)`, or added to it; any strides.
///
/// The order of sums is that of the [crate](self).
///
/// # Panics
/// If the shapes do not fit.
pub fn matmul(
    level: Level,
    add: bool,
    scale: f32,
    a: ArrayView2<'_, f32>,
    b: ArrayView2<'_, f32>,
    out: ArrayViewMut2<'_, f32>,
) {
    level.run(Product { update: Update { add, scale }, lower: false, a, b: Matrix::View(b), out });
}

/// `a (m, k) @ right (k, n) * scale -> out (m, n)`, or added to it, at the level that the right side was
/// packed for; bit-exact with [`matmul`].
///
/// # Panics
/// If the shapes do not fit.
pub fn matmul_packed(
    add: bool,
    scale: f32,
    a: ArrayView2<'_, f32>,
    right: &Right,
    out: ArrayViewMut2<'_, f32>,
) {
    right.level().run(Product {
        update: Update { add, scale },
        lower: false,
        a,
        b: Matrix::Packed(right),
        out,
    });
}

/// `x^T (n, n_rows) @ x (n_rows, n) -> out (n, n)`, or added to it. Values on and below the diagonal are
/// bit-exact with [`matmul`], for about half the work. Values above the diagonal are unspecified; [`mirror`]
/// fills them.
///
/// # Panics
/// If the shapes do not fit.
pub fn gram(level: Level, add: bool, x: ArrayView2<'_, f32>, out: ArrayViewMut2<'_, f32>) {
    let update = Update { add, scale: 1.0 };
    level.run(Product { update, lower: true, a: x.reversed_axes(), b: Matrix::View(x), out });
}

/// `out_ij <- out_ji` for `j > i`: out (n, n).
///
/// # Panics
/// If `out` is not square.
pub fn mirror(mut out: ArrayViewMut2<'_, f32>) {
    // Squares that fit the first-level cache, so that no cache line is loaded for a single element.
    const SIDE: usize = 32;
    let n = out.nrows();
    assert_eq!(out.ncols(), n, "a matrix that is mirrored is square");
    for first in (0..n).step_by(SIDE) {
        let end = (first + SIDE).min(n);
        for i in first..end {
            for j in i + 1..end {
                out[[i, j]] = out[[j, i]];
            }
        }
        let (mut above, below) = out.view_mut().split_at(ndarray::Axis(0), end);
        for square in (end..n).step_by(SIDE) {
            let until = (square + SIDE).min(n);
            let from = below.slice(s![square - end..until - end, first..end]);
            above.slice_mut(s![first..end, square..until]).assign(&from.reversed_axes());
        }
    }
}

/// Operation applied to a block's sum.
#[derive(Debug, Clone, Copy)]
struct Update {
    /// True if the first sum is added to the contents of `out`, like all others.
    add: bool,
    scale: f32,
}

enum Matrix<'a> {
    View(ArrayView2<'a, f32>),
    Packed(&'a Right),
}

/// A product to be computed with a level's vectors.
struct Product<'a, 'o> {
    update: Update,
    /// True if only elements of `out` on and below the diagonal are needed.
    lower: bool,
    /// (m, k).
    a: ArrayView2<'a, f32>,
    /// (k, n).
    b: Matrix<'a>,
    /// (m, n).
    out: ArrayViewMut2<'o, f32>,
}

impl Product<'_, '_> {
    fn check(&self) {
        let (k, n) = match &self.b {
            Matrix::View(b) => b.dim(),
            Matrix::Packed(right) => right.dim(),
        };
        assert_eq!((self.a.ncols(), self.out.dim()), (k, (self.a.nrows(), n)), "shapes of a product fit");
    }
}

impl Vectors for Product<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn run<S: fearless_simd::Simd>(self, simd: S) {
        self.check();
        blocked::matmul(simd, self);
    }

    fn scalar(self) {
        self.check();
        scalar::matmul(self);
    }
}
