//! Convolutions of each element with its own past.

use rayon::prelude::*;

use super::{CONVOLVED, need_size, need_vector};
use crate::{Error, graph::Pass, keys::Keys, ops::Rows, weights::Weights};

/// A convolution over the tokens of a window, each element by itself.
pub(super) struct CausalConv {
    /// Tokens that are seen at once.
    kernel: usize,
    /// (kernel, width): what the oldest is multiplied with comes first.
    weight: Vec<f32>,
    /// (width).
    bias: Option<Vec<f32>>,
}

impl CausalConv {
    /// `NAME.weight` (kernel, width), with the kernel's length under `key`, and `NAME.bias`, if it
    /// is there.
    pub fn open(
        keys: &Keys<'_>,
        key: &str,
        weights: &mut Weights<'_>,
        name: &str,
        width: usize,
    ) -> Result<CausalConv, Error> {
        let kernel = need_size(keys, key)?;
        let stored = need_vector(weights, format!("{name}.weight"), kernel.saturating_mul(width))?;
        let weight = (0..kernel).flat_map(|k| stored[k..].iter().step_by(kernel).copied()).collect();
        Ok(CausalConv { kernel, weight, bias: weights.vector(&format!("{name}.bias"), width)? })
    }

    /// `out[t] = bias + sum over k of weight[k] * x[t - kernel + 1 + k]`: x (n, width) -> (n, width).
    pub fn run(&self, index: usize, x: &Rows, pass: &mut Pass<'_, '_>) -> Rows {
        let (width, past) = (x.ncols(), self.kernel - 1);
        let mut tails = pass.recall(index, CONVOLVED, past * width);
        let mut convolved = pass.take(x.nrows(), width);
        let all = x.as_slice().expect("activations are contiguous");
        let out = convolved.as_slice_mut().expect("activations are contiguous");
        for (window, tail) in pass.windows().into_iter().zip(&mut tails) {
            let cells = window.start * width..window.end * width;
            let rows = &all[cells.clone()];
            out[cells].par_chunks_mut(width).enumerate().for_each(|(t, out)| {
                match &self.bias {
                    Some(bias) => out.copy_from_slice(bias),
                    None => out.fill(0.0),
                }
                for (k, weight) in self.weight.chunks_exact(width).enumerate() {
                    // Rows are counted from the first that the tail holds.
                    let seen = match (t + k).checked_sub(past) {
                        Some(row) => &rows[row * width..][..width],
                        None => &tail[(t + k) * width..][..width],
                    };
                    for ((out, weight), x) in out.iter_mut().zip(weight).zip(seen) {
                        *out += weight * x;
                    }
                }
            });
            let n = window.len();
            if n >= past {
                tail.copy_from_slice(&rows[(n - past) * width..]);
            } else {
                tail.copy_within(n * width.., 0);
                tail[(past - n) * width..].copy_from_slice(rows);
            }
        }
        pass.remember(index, CONVOLVED, tails);
        convolved
    }
}
