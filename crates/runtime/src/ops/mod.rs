//! The mathematics that graphs are made of, on rows of f32.

mod activation;
mod attention;
mod keys;
mod matmul;
mod norm;
mod recurrence;
mod rope;
mod rounding;
mod rows;
mod selection;

pub use activation::{Activation, exp, log_sum_exp, smallest};
pub use attention::{Attention, softmax};
pub use keys::{KvView, Mask, Queries};
pub use matmul::{Product, dense, mul_backward, multiply};
pub use norm::{Norm, NormKind};
pub use recurrence::{dot, recur, sigmoid, softplus};
pub use rope::{Rope, RopeCache, RopeKind, RopeScaling};
pub use rounding::round;
pub use rows::{Buffers, Rows};
pub use selection::{BlockChoice, KeyChoice, Pools, Selection};

use gguf_quant::Level;

/// Runs element-wise work with the vector instructions of this machine; functions that the closure calls
/// should be `#[inline(always)]`, as it is itself.
#[inline(always)]
pub fn vectorize<R>(work: impl FnOnce() -> R) -> R {
    Level::detect().vectorize(work)
}
