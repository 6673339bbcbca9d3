//! Per-layer inputs, in addition to the residual stream, with a table of embeddings or without one.
//!
//! For the token t with the scaled embedding x_0, and for layer l, with D =
//! `embedding_length_per_layer_input`:
//!
//! ```text
//! p_l = (norm(W_l x_0 / sqrt(n_embd)) + sqrt(D) E_l[t]) / sqrt(2)      W_l (D, n_embd), E_l (n_vocab, D), p_l (D)
//! p_l = norm(W_l x_0 / sqrt(n_embd))                                   without a table
//! d = norm(W_out (f(W_gate x) * p_l))                                  W_gate (D, n_embd), W_out (n_embd, D)
//! ```
//!
//! `d` is added to the residual stream after the layer. W and E of all layers are one matrix each.
//!
//! Source: `llama_model_gemma4::graph` of llama.cpp (llama-cpp-python 0.3.36), and `llama_model_gemma_embedding2::graph` of
//! build 11549.

use super::{linear::Linear, params::DecoderParams};
use crate::{
    Error,
    keys::Keys,
    ops::{Activation, Norm, Rows},
    pass::Pass,
    weights::{Weight, Weights},
};

/// Elements for each layer; 0 if a file has no such inputs, or embeddings of several tokens under the same names
/// (`ngram.rs`).
fn width(keys: &Keys<'_>) -> Result<usize, Error> {
    match keys.count("ple.ngram_size")? {
        None => Ok(keys.count("embedding_length_per_layer_input")?.unwrap_or(0)),
        Some(_) => Ok(0),
    }
}

/// The inputs of all layers.
pub(super) struct PerLayerInputs {
    /// (n_vocab, n_layer * D).
    embedding: Option<Weight>,
    /// (n_embd) -> (n_layer * D).
    projection: Linear,
    norm: Option<Norm>,
    /// `D`.
    width: usize,
}

impl PerLayerInputs {
    /// Per-layer inputs of a file, if it has any.
    pub fn open(
        params: &DecoderParams,
        keys: &Keys<'_>,
        weights: &mut Weights<'_>,
    ) -> Result<Option<PerLayerInputs>, Error> {
        let width = width(keys)?;
        if width == 0 {
            return Ok(None);
        }
        let all = params.n_layer * width;
        let name = "per_layer_token_embd.weight";
        let n_vocab = weights.shape(name).map_or(0, |shape| shape.dim(1) as usize);
        let has_table = params.spec.has_per_layer_table;
        Ok(Some(PerLayerInputs {
            embedding: has_table.then(|| weights.need_matrix(name, all, n_vocab)).transpose()?,
            projection: Linear::need(weights, "per_layer_model_proj", params.n_embd, all)?,
            norm: params.optional_norm(weights, "per_layer_proj_norm", width)?,
            width,
        }))
    }

    /// `x (n, n_embd)`, the scaled embedding `-> (n, n_layer * D)`.
    pub fn run(&self, x: &Rows, pass: &mut Pass<'_, '_>) -> Result<Rows, Error> {
        let mut projected = self.projection.run(x, pass);
        projected *= 1.0 / (x.ncols() as f32).sqrt();
        if let Some(norm) = &self.norm {
            norm.apply_groups(&mut projected, self.width);
        }
        if let Some(embedding) = &self.embedding {
            // Half of the variance comes from the context-free part.
            let embedded = pass.embed(embedding)?;
            projected.add_scaled((self.width as f32).sqrt(), &embedded);
            projected *= std::f32::consts::FRAC_1_SQRT_2;
        }
        Ok(projected)
    }
}

/// Use of its per-layer embedding in one layer.
pub(super) struct PerLayerInput {
    activation: Activation,
    gate: Linear,
    output: Linear,
    norm: Option<Norm>,
    /// The first of its columns in the inputs of all layers.
    start: usize,
}

impl PerLayerInput {
    /// The part of layer `i`, if there is one.
    pub fn open(
        params: &DecoderParams,
        keys: &Keys<'_>,
        weights: &mut Weights<'_>,
        i: usize,
    ) -> Result<Option<PerLayerInput>, Error> {
        let blk = |name: &str| format!("blk.{i}.{name}");
        let (width, n_embd) = (width(keys)?, params.n_embd);
        if width == 0 {
            return Ok(None);
        }
        Ok(Some(PerLayerInput {
            activation: params.spec.activation,
            gate: Linear::need(weights, &blk("inp_gate"), n_embd, width)?,
            output: Linear::need(weights, &blk("proj"), width, n_embd)?,
            norm: params.optional_norm(weights, &blk("post_norm"), n_embd)?,
            start: i * width,
        }))
    }

    /// `x (n, n_embd) -> d (n, n_embd)`.
    pub fn run(&self, x: &Rows, pass: &mut Pass<'_, '_>) -> Rows {
        let mut gate = self.gate.run(x, pass);
        // Taken out and put back, because the pass lends its memory for the columns.
        let inputs = pass.per_layer_inputs.take().expect("the decoder computes the inputs of its layers");
        let input = pass.columns(&inputs, self.start..self.start + gate.ncols());
        pass.per_layer_inputs = Some(inputs);
        self.activation.apply_gated(&mut gate, &input);
        let mut out = self.output.run(&gate, pass);
        if let Some(norm) = &self.norm {
            norm.apply(&mut out);
        }
        out
    }
}
