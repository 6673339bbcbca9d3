//! Weight matrices with their biases.

use super::switch::Switched;
use crate::{
    Error,
    ops::{Product, Rows},
    pass::Pass,
    weights::{Weight, Weights},
};

/// A weight matrix with its bias.
pub struct Linear {
    /// W (n_out, n_in).
    pub weight: Weight,
    /// b (n_out).
    pub bias: Option<Vec<f32>>,
    /// Adapters that tokens choose.
    pub(super) switched: Vec<Switched>,
}

impl Linear {
    /// `NAME.weight` (n_in, n_out) and `NAME.bias`, if the weight is there.
    pub fn open(
        weights: &mut Weights<'_>,
        name: &str,
        n_in: usize,
        n_out: usize,
    ) -> Result<Option<Linear>, Error> {
        let Some(weight) = weights.matrix(&format!("{name}.weight"), n_in, n_out)? else { return Ok(None) };
        let bias = weights.vector(&format!("{name}.bias"), n_out)?;
        let switched = Switched::open(weights, name, n_in, n_out, 0)?.into_iter().collect();
        Ok(Some(Linear { weight, bias, switched }))
    }

    /// As [`Linear::open`]; it must be there.
    pub fn need(weights: &mut Weights<'_>, name: &str, n_in: usize, n_out: usize) -> Result<Linear, Error> {
        Self::open(weights, name, n_in, n_out)?
            .ok_or_else(|| Error::MissingTensor { name: format!("{name}.weight") })
    }

    /// The products of several with the same input, which the kernels then read once.
    pub fn run_all<const N: usize>(all: [&Linear; N], x: &Rows, pass: &mut Pass<'_, '_>) -> [Rows; N] {
        let mut out = all.map(|linear| pass.scratch(x.nrows(), linear.weight.n_out));
        let products = all.iter().zip(&mut out);
        let products =
            products.map(|(linear, out)| Product { weight: &linear.weight, index: 0, out: out.view_mut() });
        pass.mul_mat(x.view(), products.collect());
        for (linear, out) in all.iter().zip(&mut out) {
            if let Some(bias) = &linear.bias {
                out.add_bias(bias);
            }
            for switched in &linear.switched {
                switched.add(x, out, pass);
            }
        }
        out
    }

    /// `x (n, n_in) -> x W^T + b (n, n_out)`.
    pub fn run(&self, x: &Rows, pass: &mut Pass<'_, '_>) -> Rows {
        let [out] = Linear::run_all([self], x, pass);
        out
    }
}
