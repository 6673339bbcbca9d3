//! Matrices of experts, stacked in one tensor.

use crate::{
    Error,
    ops::Rows,
    weights::{Weight, Weights},
};

/// A matrix and a bias for each expert.
pub(super) struct Stack {
    pub weight: Weight,
    /// (n_expert): factors of the products with each matrix.
    pub scale: Option<Vec<f32>>,
    /// (n_expert, n_out).
    bias: Option<Vec<f32>>,
}

impl Stack {
    /// Reads `NAME.weight` (n_in, n_out, n), `NAME.scale` and `NAME.bias`, if the file has the weight.
    pub fn open(
        weights: &mut Weights<'_>,
        name: &str,
        n_in: usize,
        n_out: usize,
        n: usize,
    ) -> Result<Option<Stack>, Error> {
        let weight = weights.stack(&format!("{name}.weight"), n_in, n_out, n)?;
        let Some(weight) = weight else { return Ok(None) };
        let scale = weights.vector(&format!("{name}.scale"), n)?;
        let bias = weights.vector(&format!("{name}.bias"), n * n_out)?;
        Ok(Some(Stack { weight, scale, bias }))
    }

    /// As [`Stack::open`]; fails if the weight is missing.
    pub fn need(
        weights: &mut Weights<'_>,
        name: &str,
        n_in: usize,
        n_out: usize,
        n: usize,
    ) -> Result<Stack, Error> {
        Self::open(weights, name, n_in, n_out, n)?
            .ok_or_else(|| Error::MissingTensor { name: format!("{name}.weight") })
    }

    /// Applies the expert's scale and bias to `rows` (n, n_out), the products with its matrix.
    pub fn scale_and_add_bias(&self, expert: usize, rows: &mut Rows) {
        if let Some(scale) = &self.scale {
            *rows *= scale[expert];
        }
        if let Some(bias) = &self.bias {
            let n = self.weight.n_out;
            rows.add_bias(&bias[expert * n..(expert + 1) * n]);
        }
    }
}
