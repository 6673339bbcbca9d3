//! The mathematics that graphs are made of, on rows of f32.

mod activation;
mod attention;
mod matmul;
mod norm;
mod recurrence;
mod rope;
mod rounding;

pub(crate) use activation::{Activation, exp, log_sum_exp};
pub(crate) use attention::{Attention, Mask, Queries, Window, softmax};
pub(crate) use matmul::{Product, dense, mul_mat};
pub(crate) use norm::{Norm, NormKind};
pub(crate) use recurrence::{dot, recur, sigmoid, softplus};
pub(crate) use rope::{Rope, RopeKind, Scaling, Turns};
pub(crate) use rounding::{round, round_into};

use ndarray::Array2;
use quant::Level;
use rayon::prelude::*;

/// Does element-wise work with the vector instructions of this machine; what the closure calls should be
/// `#[inline(always)]`, as it is itself.
#[inline(always)]
pub(crate) fn vectorize<R>(work: impl FnOnce() -> R) -> R {
    Level::detect().vectorize(work)
}

/// Activations: (rows, width) f32, row-major; a row is a token.
pub(crate) type Rows = Array2<f32>;

/// Adds a vector to every row.
pub(crate) fn add_bias(rows: &mut Rows, bias: &[f32]) {
    let rows = rows.as_slice_mut().expect("activations are contiguous");
    rows.par_chunks_mut(bias.len().max(1)).for_each(|row| {
        vectorize(
            #[inline(always)]
            || row.iter_mut().zip(bias).for_each(|(value, bias)| *value += bias),
        );
    });
}

/// `to <- to + scale * rows`.
pub(crate) fn add_scaled(to: &mut Rows, scale: f32, rows: &Rows) {
    const CHUNK: usize = 1 << 14;
    let to = to.as_slice_mut().expect("activations are contiguous");
    let rows = rows.as_slice().expect("activations are contiguous");
    to.par_chunks_mut(CHUNK).zip(rows.par_chunks(CHUNK)).for_each(|(to, rows)| {
        vectorize(
            #[inline(always)]
            || to.iter_mut().zip(rows).for_each(|(to, x)| *to += scale * x),
        );
    });
}

/// `to <- from`.
pub(crate) fn copy(from: &Rows, to: &mut Rows) {
    const CHUNK: usize = 1 << 14;
    let to = to.as_slice_mut().expect("activations are contiguous");
    let from = from.as_slice().expect("activations are contiguous");
    to.par_chunks_mut(CHUNK).zip(from.par_chunks(CHUNK)).for_each(|(to, from)| to.copy_from_slice(from));
}
