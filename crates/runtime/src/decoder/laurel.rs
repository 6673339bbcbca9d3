//! A second path around the mixers of a layer, of low rank (LAuReL, arXiv 2411.07501).
//!
//! ```text
//! x <- (x + h + norm(W_r W_l h)) / sqrt(2)     W_l (rank, n_embd), W_r (n_embd, rank)
//! ```
//!
//! x is the residual stream with what the mixers gave, h the rows that they were given.
//!
//! Source: `llama_model_gemma3n::graph::laurel` of llama.cpp (llama-cpp-python 0.3.36).

use super::{linear::Linear, params::DecoderParams};
use crate::{
    Error,
    ops::{Norm, Rows},
    pass::Pass,
    weights::Weights,
};

pub(super) struct Laurel {
    left: Linear,
    right: Linear,
    norm: Option<Norm>,
}

impl Laurel {
    /// The LAuReL part of layer `i`, if there is one.
    pub fn open(
        params: &DecoderParams,
        weights: &mut Weights<'_>,
        i: usize,
    ) -> Result<Option<Laurel>, Error> {
        let blk = |name: &str| format!("blk.{i}.{name}");
        let Some(stored) = weights.shape(&blk("laurel_l.weight")) else { return Ok(None) };
        let (n_embd, rank) = (params.n_embd, stored.dim(1) as usize);
        Ok(Some(Laurel {
            left: Linear::need(weights, &blk("laurel_l"), n_embd, rank)?,
            right: Linear::need(weights, &blk("laurel_r"), rank, n_embd)?,
            norm: params.optional_norm(weights, &blk("laurel_post_norm"), n_embd)?,
        }))
    }

    /// `x, h (n, n_embd)`: adds the path to x.
    pub fn add(&self, x: &mut Rows, h: &Rows, pass: &mut Pass<'_, '_>) {
        let narrow = self.left.run(h, pass);
        let mut wide = self.right.run(&narrow, pass);
        if let Some(norm) = &self.norm {
            norm.apply(&mut wide);
        }
        x.add_scaled(1.0, h);
        x.add_scaled(1.0, &wide);
        // Two streams of the same variance, as one.
        *x *= std::f32::consts::FRAC_1_SQRT_2;
    }
}
