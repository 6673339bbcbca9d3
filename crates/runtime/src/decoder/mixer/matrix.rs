//! One matrix instead of attention: `y = W h`, so that no token sees another (DeciLM).
//!
//! Source: `llama_model_deci::graph` of llama.cpp (llama-cpp-python 0.3.36).

use super::{Backward, Mixer};
use crate::{
    Error,
    decoder::{linear::Linear, params::DecoderParams},
    ops::Rows,
    pass::Pass,
    state_size::StateSize,
    weights::Weights,
};

pub(in crate::decoder) struct Matrix(Linear);

impl Matrix {
    /// The matrix of layer `i`, which is stored as its output matrix.
    pub fn open(params: &DecoderParams, weights: &mut Weights<'_>, i: usize) -> Result<Matrix, Error> {
        let n_embd = params.n_embd;
        Ok(Matrix(Linear::need(weights, &format!("blk.{i}.attn_output"), n_embd, n_embd)?))
    }
}

impl Mixer for Matrix {
    fn row_floats(&self) -> usize {
        self.0.weight.n_out
    }

    fn state_size(&self) -> StateSize {
        StateSize { graph_floats: self.0.weight.n_out, ..StateSize::default() }
    }

    fn run(&self, _index: usize, h: &Rows, pass: &mut Pass<'_, '_>) -> Rows {
        self.0.run(h, pass)
    }

    fn backward(&self) -> Option<&dyn Backward> {
        Some(self)
    }
}

impl Backward for Matrix {
    fn backward(&self, _h: &Rows, gradients: Rows, pass: &mut Pass<'_, '_>) -> Rows {
        pass.mul_backward(&[(&self.0.weight, &gradients)])
    }
}
