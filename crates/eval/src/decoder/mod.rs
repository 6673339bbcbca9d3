//! One decoder, described by data, for the many families that share their mathematics.
//!
//! Sources: `src/models/*.cpp` and `src/llama-graph.cpp` of llama.cpp (llama-cpp-python 0.3.36).

mod attention;
mod experts;
mod latent;
mod layer;
mod linear;
mod mixer;
mod mlp;
mod params;
mod rope_scaling;
mod select;
mod spec;

use quant::Level;

use crate::{
    Error,
    graph::{Graph, Head, Prepared},
    keys::Keys,
    ops::{Norm, Rows},
    pass::Pass,
    weights::{Weight, Weights},
};
use layer::Layer;
use params::{DecoderParams, soft_cap};
use spec::{EmbeddingScale, LogitScale};
pub(crate) use {linear::Linear, mlp::Mlp, spec::Spec};

/// A decoder with its weights.
struct Decoder {
    /// (n_vocab, n_embd).
    embedding: Weight,
    embedding_scale: f32,
    embedding_norm: Option<Norm>,
    /// Learned positions: (n_positions, n_embd).
    positions: Option<Weight>,
    /// (n_embd): the token-type (segment) embedding of type 0.
    token_type: Option<Vec<f32>>,
    layers: Vec<Layer>,
    output_norm: Option<Norm>,
}

/// Reads a decoder of this family.
pub(crate) fn open(spec: Spec, keys: &Keys<'_>, weights: &mut Weights<'_>) -> Result<Prepared, Error> {
    let params = DecoderParams::read(spec, keys, weights)?;
    let DecoderParams { spec, n_embd, n_layer, .. } = params;
    let n_vocab = weights.shape("token_embd.weight").map_or(0, |shape| shape.dim(1) as usize);
    let embedding = weights.need_matrix("token_embd.weight", n_embd, n_vocab)?;
    let embedding_scale = match spec.embedding_scale {
        EmbeddingScale::Key(default) => keys.float("embedding_scale")?.unwrap_or(default),
        EmbeddingScale::SqrtWidth => (n_embd as f32).sqrt(),
    };
    let n_positions = weights.shape("position_embd.weight").map_or(0, |shape| shape.dim(1) as usize);
    let positions = weights.matrix("position_embd.weight", n_embd, n_positions)?;
    let token_type = token_type(weights, n_embd)?;
    let embedding_norm = params.norm_if_there(weights, "token_embd_norm", n_embd)?;
    let head = match spec.has_lm_head {
        true => Some(head(&spec, keys, weights, &embedding)?),
        false => None,
    };
    let output_norm = params.norm(weights, "output_norm", n_embd)?;
    let (embedding_norm, output_norm) = match spec.output_norm_is_token_embd_norm {
        true => (None, output_norm.or(embedding_norm)),
        false => (embedding_norm, output_norm),
    };
    let layers =
        (0..n_layer).map(|i| Layer::open(&params, keys, weights, i)).collect::<Result<Vec<_>, _>>()?;
    // Beside what a layer needs there are the residual stream, its norm, and what is added to it.
    let row_floats = layers.iter().map(Layer::row_floats).max().unwrap_or(0) + 3 * n_embd;
    let decoder =
        Decoder { embedding, embedding_scale, embedding_norm, positions, token_type, layers, output_norm };
    Ok(Prepared { graph: Box::new(decoder), head, n_vocab, n_embd, row_floats })
}

fn head(spec: &Spec, keys: &Keys<'_>, weights: &mut Weights<'_>, embedding: &Weight) -> Result<Head, Error> {
    let (n_embd, n_vocab) = (embedding.n_in, embedding.n_out);
    Ok(Head {
        // Without an output matrix of its own a model uses its embedding (tied weights).
        weight: weights.matrix("output.weight", n_embd, n_vocab)?.unwrap_or_else(|| embedding.clone()),
        bias: weights.vector("output.bias", n_vocab)?,
        scale: match (keys.float("logit_scale")?, spec.logit_scale) {
            (None | Some(0.0), _) => 1.0,
            (Some(scale), LogitScale::Multiply) => scale,
            (Some(scale), LogitScale::Divide) => 1.0 / scale,
        },
        soft_cap: soft_cap(keys.float("final_logit_softcapping")?, spec.soft_caps.logits),
    })
}

/// The embedding of token type 0, where there are types: as in the reference, all tokens are of this type.
fn token_type(weights: &mut Weights<'_>, n_embd: usize) -> Result<Option<Vec<f32>>, Error> {
    let name = "token_types.weight";
    let n = weights.shape(name).map_or(0, |shape| shape.dim(1) as usize);
    let Some(types) = weights.matrix(name, n_embd, n)?.filter(|types| types.n_out > 0) else {
        return Ok(None);
    };
    let mut row = vec![0.0; n_embd];
    types.decode(Level::detect(), 0..1, &mut row).expect("a weight of a checked type decodes");
    Ok(Some(row))
}

impl Graph for Decoder {
    /// `x = norm(scale * E[token] + P[position] + T[0])`, the layers, the norm of the output.
    fn run(&self, pass: &mut Pass<'_, '_>) -> Result<Rows, Error> {
        let mut x = pass.embed(&self.embedding)?;
        if self.embedding_scale != 1.0 {
            x *= self.embedding_scale;
        }
        // A projector's rows are as large as scaled embeddings.
        pass.place_pictures(&mut x);
        if let Some(positions) = &self.positions {
            x += &pass.embed_positions(positions)?;
        }
        if let Some(token_type) = &self.token_type {
            x.add_bias(token_type);
        }
        if let Some(norm) = &self.embedding_norm {
            norm.apply(&mut x);
        }
        for (i, layer) in self.layers.iter().enumerate() {
            layer.run(i, &mut x, pass);
            pass.add_deep_features(i, &mut x);
        }
        // From here on only the wanted rows count: for perplexity half of them, in generation one.
        let mut wanted = x.select_rows(&pass.wanted_rows());
        if let Some(norm) = &self.output_norm {
            norm.apply(&mut wanted);
        }
        Ok(wanted)
    }

    fn takes_pictures(&self) -> bool {
        true
    }
}
