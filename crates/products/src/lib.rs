//! Products of f32 matrices whose sums have one order: the same bits on every CPU and for any number of threads.
//!
//! ```text
//! a (m, k), b (k, n), out (m, n); K = 256 rows of b are a block
//!
//! s_p(i, j) = fma(a_il, b_lj, .. fma(a_i0, b_0j, 0))       l over the columns of block p, ascending
//! out_ij    = ((out_ij + scale s_0) + scale s_1) + ..      `out_ij +` only with `add`; blocks ascending
//! ```
//!
//! `fma` rounds once, and nothing else is contracted. [`matmul`] at [`Level::Scalar`](quant::Level) says the same in plain loops, and
//! every level equals it bit for bit, but for the sign and the payload of NaN. An element depends on its row, its column and `k` alone:
//! neither the other rows and columns of a call nor strides change it, so that callers may cut products as they like.
//!
//! Why not a library: what quantized files hold is decided by such products (error feedback, second moments), and the libraries
//! for Rust choose blocks and kernels by the caches and the instructions that they find, so that another machine would write another
//! file. Here a vector lane is a column of `out`, so that its width changes no sum. The right side is packed once for all threads
//! ([`Right`]), where a library packs it in every call, and the left side not at all where its rows are contiguous. Whether that makes
//! it faster than the library before was not measured; it compiles in seconds, where that took two minutes of CPU (docs/notes/building.md).
//!
//! Everything runs on the thread that calls; parallel work is cut outside of this crate.
//!
//! Scheme of blocks: Goto and van de Geijn, "Anatomy of high-performance matrix multiplication" (2008), without the packing of the
//! left side.
#![cfg_attr(
    not(test),
    deny(
        clippy::print_stdout,
        clippy::print_stderr,
        clippy::exit,
        clippy::disallowed_methods,
        clippy::disallowed_types
    )
)]
#![expect(clippy::needless_range_loop, reason = "kernels walk several arrays by one index")]

mod blocked;
pub mod integers;
mod left;
mod panels;
mod right;
mod scalar;
mod tile;

use ndarray::{ArrayView2, ArrayViewMut2, s};
use quant::{Level, Vectors};

pub use right::Right;
pub use scalar::fused;

/// Rows of the right side whose products are added up by themselves before they are added to `out`.
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

/// `a (m, k) @ right (k, n) * scale -> out (m, n)`, or added to it, at the level that the right side was packed for: the same bits
/// as [`matmul`].
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

/// `x^T (n, n_rows) @ x (n_rows, n) -> out (n, n)`, or added to it: on the diagonal and below it the same bits as
/// [`matmul`], for about half of the work. What it leaves above the diagonal is not specified; [`mirror`] fills it.
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
    // Squares that fit the first cache, so that neither side is read or written a line at a time for one element.
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

/// What is done with a block's sum.
#[derive(Debug, Clone, Copy)]
struct Update {
    /// Whether the first one is added to what is in `out`, as all others are.
    add: bool,
    scale: f32,
}

/// The right side of a product.
enum Matrix<'a> {
    View(ArrayView2<'a, f32>),
    Packed(&'a Right),
}

/// A product to be done with a level's vectors.
struct Product<'a, 'o> {
    update: Update,
    /// Whether `out` is wanted on and below the diagonal only.
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
