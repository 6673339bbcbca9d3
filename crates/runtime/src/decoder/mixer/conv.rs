//! Causal depthwise convolutions: each element with its own past.
//!
//! ```text
//! y_t[c] = b[c] + sum over k of w_k[c] x_(t - K + 1 + k)[c]      k = 0 .. K - 1; x_t, y_t (width)
//! ```
//!
//! Rows may be several positions apart, `x_(t - (K - 1 - k) step)`. The first token of a sequence is preceded by the last `K - 1` rows that a session kept, or by zeros. If
//! tokens see later ones too, the window is centered on its token, `x_(t - (K - 1) / 2 + k)`, and zeros
//! follow the last one.

use rayon::prelude::*;

use super::need_size;
use crate::{Error, keys::Keys, ops::Rows, pass::Pass, session::StateKind, weights::Weights};

/// A convolution over the tokens of a sequence, each element by itself.
pub(in crate::decoder) struct CausalConv {
    /// Tokens that are seen at once: `K`.
    kernel: usize,
    /// Number of later rows in the window.
    ahead: usize,
    /// Positions from one row of the window to the next.
    step: usize,
    kept: Kept,
    /// (kernel, width): the factor of the oldest row comes first.
    weight: Vec<f32>,
    /// (width).
    bias: Option<Vec<f32>>,
}

/// Part of a layer that a convolution belongs to, for its state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::decoder) enum Kept {
    /// The mixer.
    OfMixer,
    /// The embeddings of several tokens.
    OfNGrams,
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
        let stored = weights.need_vector(&format!("{name}.weight"), kernel.saturating_mul(width))?;
        // Stored with the K factors of an element side by side; the loops below want those of one k for all elements.
        let weight = (0..kernel).flat_map(|k| stored[k..].iter().step_by(kernel).copied()).collect();
        let bias = weights.vector(&format!("{name}.bias"), width)?;
        Ok(CausalConv { kernel, ahead: 0, step: 1, kept: Kept::OfMixer, weight, bias })
    }

    /// Several convolutions of the same kernel and width as one over the concatenated elements.
    pub fn joined(all: &[CausalConv], width: usize) -> CausalConv {
        let kernel = all.first().map_or(1, |conv| conv.kernel);
        let of_k = |k| all.iter().flat_map(move |conv: &CausalConv| &conv.weight[k * width..(k + 1) * width]);
        let weight = (0..kernel).flat_map(of_k).copied().collect();
        CausalConv { kernel, ahead: 0, step: 1, kept: Kept::OfMixer, weight, bias: None }
    }

    /// Like this, with rows `step` positions apart, in another part of a layer.
    pub fn dilated(self, step: usize, kept: Kept) -> CausalConv {
        CausalConv { step, kept, ..self }
    }

    /// Like this, with as many later tokens as earlier ones.
    pub fn centred(self, keys: &Keys<'_>, key: &str) -> Result<CausalConv, Error> {
        match self.kernel % 2 {
            1 => Ok(CausalConv { ahead: self.kernel / 2, ..self }),
            _ => Err(keys.wrong(key, "an odd count where tokens see later ones")),
        }
    }

    /// Elements of the rows of this width that it looks back on.
    pub fn kept_elems(&self, width: usize) -> usize {
        if self.ahead > 0 { 0 } else { (self.kernel - 1) * self.step * width }
    }

    /// x (n, width) -> (n, width).
    pub fn run(&self, index: usize, x: &Rows, pass: &mut Pass<'_, '_>) -> Rows {
        let (width, past) = (x.ncols(), (self.kernel - 1) * self.step - self.ahead);
        let kind = match self.kept {
            Kept::OfMixer => StateKind::Convolution,
            Kept::OfNGrams => StateKind::NGramConvolution,
        };
        let mut tails = pass.take_states(index, kind, past * width);
        let mut convolved = pass.scratch(x.nrows(), width);
        let (all, out) = (x.as_slice(), convolved.as_mut_slice());
        for (sequence, tail) in pass.sequences().into_iter().zip(&mut tails) {
            let cells = sequence.start * width..sequence.end * width;
            let rows = &all[cells.clone()];
            out[cells].par_chunks_mut(width).enumerate().for_each(|(t, out)| {
                // The sum begins with the bias, then takes the oldest token first.
                match &self.bias {
                    Some(bias) => out.copy_from_slice(bias),
                    None => out.fill(0.0),
                }
                for (k, weight) in self.weight.chunks_exact(width).enumerate() {
                    // Row t - past + k of the sequence, counted from the first that the tail contains.
                    let k = k * self.step;
                    let seen = match (t + k).checked_sub(past) {
                        Some(row) if row >= sequence.len() => continue,
                        Some(row) => &rows[row * width..][..width],
                        None => &tail[(t + k) * width..][..width],
                    };
                    for ((out, weight), x) in out.iter_mut().zip(weight).zip(seen) {
                        *out += weight * x;
                    }
                }
            });
            // The new tail: the last `past` rows, some out of the old tail if the sequence is shorter.
            let n = sequence.len();
            if n >= past {
                tail.copy_from_slice(&rows[(n - past) * width..]);
            } else {
                tail.copy_within(n * width.., 0);
                tail[(past - n) * width..].copy_from_slice(rows);
            }
        }
        pass.put_states(index, kind, tails);
        convolved
    }
}
