//! One decoder, described by data, for the many families that share their mathematics.
//!
//! Sources: `src/models/*.cpp` and `src/llama-graph.cpp` of llama.cpp (llama-cpp-python 0.3.36).

mod altup;
mod attention;
mod experts;
mod heads;
mod latent;
mod laurel;
mod layer;
mod linear;
mod mixer;
mod mlp;
mod mlp_with_experts;
mod params;
mod per_layer_input;
mod rope_scaling;
mod select;
pub mod spec;

use gguf_quant::Level;

use crate::{
    Error,
    graph::{Graph, Head, Prepared},
    keys::Keys,
    ops::{Norm, Rows},
    pass::Pass,
    state_size::StateSize,
    weights::{Weight, Weights},
};
use altup::AltUp;
use layer::Layer;
use params::{DecoderParams, soft_cap};
use per_layer_input::PerLayerInputs;
use spec::{EmbeddingScale, LogitScale};
pub use {linear::Linear, mlp::Mlp, spec::Spec};

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
    per_layer_inputs: Option<PerLayerInputs>,
    layers: Vec<Layer>,
    /// Several residual streams, where there is more than that of the layers.
    altup: Option<AltUp>,
    output_norm: Option<Norm>,
}

/// Reads a decoder of this family.
pub fn open(spec: Spec, keys: &Keys<'_>, weights: &mut Weights<'_>) -> Result<Prepared, Error> {
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
    let embedding_norm = params.optional_norm(weights, "token_embd_norm", n_embd)?;
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
    let altup = AltUp::open(&params, keys, weights)?;
    // In addition to a layer's buffers: the residual stream, its norm, and the addition to it; or several
    // streams, and their results.
    let n_streams = altup.as_ref().map_or(0, |altup| 2 * altup.n_streams());
    let row_floats = layers.iter().map(Layer::row_floats).max().unwrap_or(0) + (3 + n_streams) * n_embd;
    let per_layer_inputs = PerLayerInputs::open(&params, keys, weights)?;
    let decoder = Decoder {
        embedding,
        embedding_scale,
        embedding_norm,
        positions,
        token_type,
        per_layer_inputs,
        layers,
        altup,
        output_norm,
    };
    let is_causal = params.is_causal;
    Ok(Prepared { graph: Box::new(decoder), head, n_vocab, n_embd, row_floats, is_causal })
}

fn head(spec: &Spec, keys: &Keys<'_>, weights: &mut Weights<'_>, embedding: &Weight) -> Result<Head, Error> {
    let (n_embd, n_vocab) = (embedding.n_in, embedding.n_out);
    Ok(Head {
        // Without a separate output matrix a model uses its embedding (tied weights).
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

impl Decoder {
    /// `x = norm(scale * E[token] + P[position] + T[0])`: (n, n_embd) for each stream.
    fn begin(&self, pass: &mut Pass<'_, '_>) -> Result<Vec<Rows>, Error> {
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
        if let Some(inputs) = &self.per_layer_inputs {
            pass.per_layer_inputs = Some(inputs.run(&x, pass)?);
        }
        Ok(match &self.altup {
            Some(altup) => altup.begin(x, pass),
            None => vec![x],
        })
    }

    /// Layer `i`.
    fn run_layer(&self, i: usize, streams: &mut [Rows], pass: &mut Pass<'_, '_>) {
        match &self.altup {
            Some(altup) => altup.run_layer(i, &self.layers[i], streams, pass),
            None => {
                self.layers[i].run(i, &mut streams[0], pass);
                pass.add_deep_features(i, &mut streams[0]);
            }
        }
    }

    /// The wanted rows, normalized: (n_wanted, n_embd).
    fn end(&self, mut streams: Vec<Rows>, pass: &mut Pass<'_, '_>) -> Rows {
        let x = match &self.altup {
            Some(altup) => altup.end(&streams, pass),
            None => streams.swap_remove(0),
        };
        // From here on only the wanted rows count: for perplexity half of them, in generation one.
        let mut outputs = x.select_rows(&pass.output_rows());
        if let Some(norm) = &self.output_norm {
            norm.apply(&mut outputs);
        }
        outputs
    }
}

impl Graph for Decoder {
    fn run(&self, pass: &mut Pass<'_, '_>) -> Result<Rows, Error> {
        let mut streams = self.begin(pass)?;
        for i in 0..self.layers.len() {
            self.run_layer(i, &mut streams, pass);
        }
        Ok(self.end(streams, pass))
    }

    /// Before the layers, each layer, and after the layers.
    fn n_steps(&self) -> usize {
        self.layers.len() + 2
    }

    fn step(
        &self,
        index: usize,
        mut streams: Vec<Rows>,
        pass: &mut Pass<'_, '_>,
    ) -> Result<Vec<Rows>, Error> {
        // Step 0 comes before the layers, step n + 1 after the last of n.
        match index.checked_sub(1) {
            None => self.begin(pass),
            Some(i) if i < self.layers.len() => {
                self.run_layer(i, &mut streams, pass);
                Ok(streams)
            }
            Some(_) => Ok(vec![self.end(streams, pass)]),
        }
    }

    fn no_backward(&self) -> Option<&'static str> {
        let whole = match () {
            () if self.altup.is_some() => Some("its several residual streams"),
            () if self.per_layer_inputs.is_some() => Some("the per-layer token inputs"),
            () => None,
        };
        whole.or_else(|| self.layers.iter().find_map(Layer::no_backward))
    }

    fn step_back(&self, index: usize, entered: Rows, mut gradients: Rows, pass: &mut Pass<'_, '_>) -> Rows {
        match index.checked_sub(1) {
            // Nothing is multiplied before the layers.
            None => gradients,
            Some(i) if i < self.layers.len() => self.layers[i].backward(i, &entered, gradients, pass),
            Some(_) => {
                if let Some(norm) = &self.output_norm {
                    norm.backward(&entered, &mut gradients);
                }
                gradients
            }
        }
    }

    fn takes_pictures(&self) -> bool {
        true
    }

    fn state_sizes(&self) -> Vec<Vec<StateSize>> {
        self.layers.iter().map(Layer::state_sizes).collect()
    }
}
