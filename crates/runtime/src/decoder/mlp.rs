//! The feed-forward part of a layer (MLP).
//!
//! ```text
//! gated:  y = W_down (f(W_gate h) * W_up h)     h (n_embd); W_gate, W_up (n_ff, n_embd); W_down (n_embd, n_ff)
//! plain:  y = W_down f(W_up h)
//! normed: y = W_down norm(f(W_gate h) * W_up h)      BitNet
//! ```

use ndarray::ArrayViewMut1;

use super::linear::Linear;
use crate::{
    Error,
    ops::{Activation, Norm, Rows},
    pass::Pass,
    weights::Weights,
};

/// A feed-forward part.
pub struct Mlp {
    activation: Activation,
    gate: Option<Linear>,
    up: Linear,
    /// True if `up` contains the gate too: (2 n_ff, n_embd).
    is_fused: bool,
    /// True if the gate is its first half.
    pub gate_first: bool,
    /// Sparsity: in each row of gates, only the excess over the mean plus this many standard deviations
    /// counts (Gemma 3n).
    pub sparsity: Option<f32>,
    /// Norm before the last matrix.
    pub(super) inner_norm: Option<Norm>,
    down: Linear,
}

impl Mlp {
    /// Matrices by name, without their ending. How many elements are between them is what the last
    /// one says: the key is not true of every file (Phi 2).
    pub fn open(
        activation: Activation,
        n_embd: usize,
        weights: &mut Weights<'_>,
        [gate, up, down]: [String; 3],
    ) -> Result<Mlp, Error> {
        let n_ff = weights.shape(&format!("{down}.weight")).map_or(0, |shape| shape.dim(0) as usize);
        // Without a separate gate the part is fused or plain, depending on the rows of `up`.
        let gate = Linear::open(weights, &gate, n_embd, n_ff)?;
        let n_up = weights.shape(&format!("{up}.weight")).map_or(0, |shape| shape.dim(1));
        // Phi 3, ChatGLM and others store gate and up as one matrix of twice the rows.
        let is_fused = gate.is_none() && n_up == 2 * n_ff as u64;
        let up = Linear::need(weights, &up, n_embd, if is_fused { 2 * n_ff } else { n_ff })?;
        let down = Linear::need(weights, &down, n_ff, n_embd)?;
        Ok(Mlp { activation, gate, up, is_fused, gate_first: true, sparsity: None, inner_norm: None, down })
    }

    /// Elements between the matrices.
    pub(super) fn n_inner(&self) -> usize {
        self.down.weight.n_in
    }

    /// Floats that are alive at once for each token, about.
    pub fn row_floats(&self) -> usize {
        self.up.weight.n_out + self.gate.as_ref().map_or(0, |gate| gate.weight.n_out)
    }

    /// Floats for each token that llama.cpp's graph has allocated at once, about.
    pub fn graph_floats(&self) -> usize {
        let n_ff = self.down.weight.n_in;
        // Gate, up and their product; without a gate the function overwrites what it reads.
        if self.gate.is_some() || self.is_fused { 3 * n_ff } else { n_ff }
    }

    /// True if the backward pass supports it.
    pub fn has_backward(&self) -> bool {
        self.sparsity.is_none() && self.inner_norm.is_none() && self.activation.has_slope()
    }

    /// Backward pass: `h` (n, n_embd) was the input; gradients of the output become those of `h`. Gate and up
    /// are computed again.
    pub fn backward(&self, h: &Rows, gradients: Rows, pass: &mut Pass<'_, '_>) -> Rows {
        let mut grad_inner = pass.mul_backward(&[(&self.down.weight, &gradients)]);
        drop(gradients);
        let Some(gate) = &self.gate else {
            let mut up = pass.unseen(|pass| self.up.run(h, pass));
            if !self.is_fused {
                self.activation.backward(&up, &mut grad_inner);
                return pass.mul_backward(&[(&self.up.weight, &grad_inner)]);
            }
            self.activation.backward_halves(&mut up, self.gate_first, &mut grad_inner);
            return pass.mul_backward(&[(&self.up.weight, &up)]);
        };
        let [mut grad_gate, up] = pass.unseen(|pass| Linear::run_all([gate, &self.up], h, pass));
        self.activation.backward_gated(&mut grad_gate, &up, &mut grad_inner);
        drop(up);
        pass.mul_backward(&[(&gate.weight, &grad_gate), (&self.up.weight, &grad_inner)])
    }

    /// `h (n, n_embd) -> (n, n_embd)`.
    pub fn run(&self, h: &Rows, pass: &mut Pass<'_, '_>) -> Rows {
        let mut inner = match &self.gate {
            Some(gate) => {
                let [mut gate, up] = Linear::run_all([gate, &self.up], h, pass);
                if let Some(deviations) = self.sparsity {
                    gate.rows_mut().into_iter().for_each(|row| keep_largest(row, deviations));
                }
                self.activation.apply_gated(&mut gate, &up);
                gate
            }
            None => {
                let mut up = self.up.run(h, pass);
                if self.is_fused {
                    let mut inner = pass.scratch(up.nrows(), up.ncols() / 2);
                    self.activation.apply_halves(&up, self.gate_first, &mut inner);
                    inner
                } else {
                    self.activation.apply(&mut up);
                    up
                }
            }
        };
        if let Some(norm) = &self.inner_norm {
            norm.apply(&mut inner);
        }
        self.down.run(&inner, pass)
    }
}

/// `x_i <- max(x_i - c, 0)` with `c = mean(x) + deviations * sqrt(mean((x - mean(x))^2))`.
///
/// Source: `Gemma3nTextMLP` of transformers 5.23. The reference divides the sum of squares by one less than their number,
/// and takes 0.95 of normally distributed gates to be below `c` in the first ten layers, whatever the file says.
fn keep_largest(mut row: ArrayViewMut1<'_, f32>, deviations: f32) {
    let n = row.len().max(1) as f32;
    let mean = row.sum() / n;
    let variance = row.iter().map(|x| (x - mean) * (x - mean)).sum::<f32>() / n;
    let cutoff = mean + deviations * variance.sqrt();
    row.mapv_inplace(|x| (x - cutoff).max(0.0));
}
