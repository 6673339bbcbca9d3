//! The mathematics that graphs are made of, on rows of f32.

mod activation;
mod attention;
mod matmul;
mod norm;
mod recurrence;
mod rope;
mod rounding;
mod rows;

pub(crate) use activation::{Activation, exp, log_sum_exp, smallest};
pub(crate) use attention::{Attention, KvView, Mask, Queries, softmax};
pub(crate) use matmul::{Product, dense, mul_backward, mul_mat, mul_rounded};
pub(crate) use norm::{Norm, NormKind};
pub(crate) use recurrence::{dot, recur, sigmoid, softplus};
pub(crate) use rope::{Rope, RopeCache, RopeKind, RopeScaling};
pub(crate) use rounding::round;
pub(crate) use rows::{Buffers, Rows};

use gguf_quant::Level;

/// Runs element-wise work with the vector instructions of this machine; functions that the closure calls
/// should be `#[inline(always)]`, as it is itself.
#[inline(always)]
pub(crate) fn vectorize<R>(work: impl FnOnce() -> R) -> R {
    Level::detect().vectorize(work)
}
