//! One decoder, described by data, for the many families that share their mathematics.
//!
//! Sources: `src/models/*.cpp` and `src/llama-graph.cpp` of llama.cpp (llama-cpp-python 0.3.36).

mod altup;
mod attention;
mod block_indexer;
mod compressed;
mod experts;
mod gated_streams;
mod heads;
mod hyper_connections;
mod indexer;
mod latent;
mod laurel;
mod layer;
mod linear;
mod mean_indexer;
mod mixer;
mod mlp;
mod mlp_with_experts;
mod ngram;
mod params;
mod per_layer_input;
mod repeats;
mod residual_bank;
mod rope_scaling;
mod ropes;
mod routing;
mod select;
mod self_attention;
pub mod spec;
mod stack;
mod switch;
mod value_experts;

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
use gated_streams::GatedStreams;
use hyper_connections::HyperConnections;
use layer::Layer;
use params::{DecoderParams, soft_cap};
use per_layer_input::PerLayerInputs;
use repeats::Repeats;
use residual_bank::ResidualBank;
use spec::{EmbeddingScale, LogitScale};
use switch::Switch;
pub use {linear::Linear, mlp::Mlp, self_attention::SelfAttention, spec::Spec};

/// A decoder with its weights.
struct Decoder {
    /// (n_vocab, n_embd).
    embedding: Weight,
    embedding_scale: f32,
    /// Choice of built-in adapters.
    switch: Option<Switch>,
    embedding_norm: Option<Norm>,
    /// Learned positions: (n_positions, n_embd).
    positions: Option<Weight>,
    /// (n_embd): the token-type (segment) embedding of type 0.
    token_type: Option<Vec<f32>>,
    per_layer_inputs: Option<PerLayerInputs>,
    /// True if layers add the embedding to their output.
    adds_embedding: bool,
    layers: Vec<Layer>,
    streams: Streams,
    output_norm: Option<Norm>,
    /// States that only llama.cpp keeps.
    more_cached: Vec<StateSize>,
}

/// Residual streams around the layers.
enum Streams {
    /// One, to which each layer adds.
    One,
    AltUp(Box<AltUp>),
    Hyper(Box<HyperConnections>),
    Gated(Box<GatedStreams>),
    Bank(ResidualBank),
    /// Layers that run more than once.
    Repeats(Repeats),
}

impl Streams {
    fn open(
        params: &DecoderParams,
        keys: &Keys<'_>,
        weights: &mut Weights<'_>,
        output_norm: Option<&Norm>,
    ) -> Result<Streams, Error> {
        if let Some(altup) = AltUp::open(params, keys, weights)? {
            return Ok(Streams::AltUp(Box::new(altup)));
        }
        if let Some(hyper) = HyperConnections::open(params, keys, weights)? {
            return Ok(Streams::Hyper(Box::new(hyper)));
        }
        if let Some(gated) = GatedStreams::open(params, keys, weights)? {
            return Ok(Streams::Gated(Box::new(gated)));
        }
        if let Some(bank) = ResidualBank::open(params, keys, weights)? {
            return Ok(Streams::Bank(bank));
        }
        let repeats = Repeats::open(params, keys, weights, output_norm)?;
        Ok(repeats.map_or(Streams::One, Streams::Repeats))
    }

    /// Layers of the file, of a model with `n` runs of layers without repetition.
    fn n_stored(&self, n: usize) -> usize {
        match self {
            Streams::Repeats(repeats) => repeats.n_stored(),
            _ => n,
        }
    }

    /// Buffers for streams and their results, in addition to the usual ones.
    fn n_buffers(&self) -> usize {
        match self {
            Streams::One => 0,
            Streams::AltUp(altup) => 2 * altup.n_streams(),
            Streams::Hyper(hyper) => 3 * hyper.n_streams(),
            Streams::Gated(gated) => 3 * gated.n_streams(),
            Streams::Bank(bank) => bank.n_streams() + 1,
            Streams::Repeats(repeats) => repeats.n_streams(),
        }
    }
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
    let head = if spec.has_lm_head { Some(head(&spec, keys, weights, &embedding)?) } else { None };
    let output_norm = params.norm(weights, spec.output_norm, n_embd)?;
    let (embedding_norm, output_norm) = if spec.output_norm_is_token_embd_norm {
        (None, output_norm.or(embedding_norm))
    } else if spec.normalizes_embedding {
        (Some(params.weightless_norm()), output_norm)
    } else {
        (embedding_norm, output_norm)
    };
    let streams = Streams::open(&params, keys, weights, output_norm.as_ref())?;
    let output_norm = match &streams {
        Streams::Repeats(repeats) if repeats.normalizes() => None,
        _ => output_norm,
    };
    let n_stored = streams.n_stored(n_layer);
    let layers =
        (0..n_stored).map(|i| Layer::open(&params, keys, weights, i)).collect::<Result<Vec<_>, _>>()?;
    // In addition to a layer's buffers: the residual stream, its norm, and the addition to it; or several
    // streams, and their results.
    let row_floats =
        layers.iter().map(Layer::row_floats).max().unwrap_or(0) + (3 + streams.n_buffers()) * n_embd;
    let per_layer_inputs = PerLayerInputs::open(&params, keys, weights)?;
    let switch = Switch::open(keys, weights, n_layer)?;
    let mut more_cached = Vec::new();
    if switch.is_some() {
        // The router is a layer with one head.
        let n_head = keys.counts("attention.head_count", n_layer)?.and_then(|heads| heads.first().copied());
        let width =
            |key: &str| Ok::<_, Error>(keys.count(key)?.unwrap_or(n_embd / n_head.unwrap_or(1).max(1)));
        let (keys, values) = (width("attention.key_length")?, width("attention.value_length")?);
        more_cached.push(StateSize { keys, values, ..StateSize::default() });
    }
    if spec.memory.caches_prediction {
        let last = layers.iter().rev().flat_map(Layer::state_sizes).find(|part| part.keys > 0);
        let n_predicting = keys.count("nextn_predict_layers")?.unwrap_or(0).min(n_layer);
        more_cached.extend(std::iter::repeat_n(last.unwrap_or_default(), n_predicting));
    }
    let decoder = Decoder {
        embedding,
        embedding_scale,
        switch,
        more_cached,
        embedding_norm,
        positions,
        token_type,
        per_layer_inputs,
        adds_embedding: spec.adds_embedding,
        layers,
        streams,
        output_norm,
    };
    let is_causal = params.is_causal;
    Ok(Prepared { graph: Box::new(decoder), head, n_vocab, n_embd, row_floats, is_causal })
}

/// Bias of a token that is never predicted. Its probability is 0, and sums of such logits stay finite.
const NEVER: f32 = -1e30;

fn head(spec: &Spec, keys: &Keys<'_>, weights: &mut Weights<'_>, embedding: &Weight) -> Result<Head, Error> {
    let (n_embd, n_vocab) = (embedding.n_in, embedding.n_out);
    Ok(Head {
        // Without a separate output matrix a model uses its embedding (tied weights).
        weight: weights.matrix("output.weight", n_embd, n_vocab)?.unwrap_or_else(|| embedding.clone()),
        bias: match (weights.vector("output.bias", n_vocab)?, spec.never_predicted) {
            (bias, Some((first, end))) if end <= n_vocab => {
                let mut bias = bias.unwrap_or_else(|| vec![0.0; n_vocab]);
                bias[first..end].fill(NEVER);
                Some(bias)
            }
            (bias, _) => bias,
        },
        scale: match (keys.float("logit_scale")?, spec.logit_scale) {
            (None, LogitScale::MultiplyOr(scale)) => scale,
            (None, LogitScale::OverWidth(base)) => base / n_embd as f32,
            (None | Some(0.0), _) => 1.0,
            (Some(scale), LogitScale::Divide) => 1.0 / scale,
            (Some(scale), _) => scale,
        },
        soft_cap: soft_cap(keys.float("final_logit_softcapping")?, spec.soft_caps.logits),
    })
}

/// The embedding of token type 0, if there are types: like the reference, all tokens are of this type.
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
    /// Number of layers that a token passes.
    fn n_runs(&self) -> usize {
        match &self.streams {
            Streams::Repeats(repeats) => repeats.n_runs(),
            _ => self.layers.len(),
        }
    }

    /// `x = norm(scale * E[token] + P[position] + T[0])`: (n, n_embd) for each stream.
    fn begin(&self, pass: &mut Pass<'_, '_>) -> Result<Vec<Rows>, Error> {
        let mut x = match &self.switch {
            None => pass.embed(&self.embedding)?,
            Some(switch) => {
                let tokens = switch.choose(pass);
                pass.embed_tokens(&self.embedding, &tokens)?
            }
        };
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
        if self.adds_embedding {
            pass.embedded = Some(x.clone());
        }
        Ok(match &self.streams {
            Streams::One | Streams::Bank(_) => vec![x],
            Streams::AltUp(altup) => altup.begin(x, pass),
            Streams::Hyper(hyper) => hyper.begin(x),
            Streams::Gated(gated) => gated.begin(x),
            Streams::Repeats(repeats) => repeats.begin(x, pass),
        })
    }

    /// Keeps the input of layer `i` for the caller, in models with one residual stream.
    fn keep_input(&self, i: usize, streams: &[Rows], pass: &mut Pass<'_, '_>) {
        if let (Streams::One, [x]) = (&self.streams, streams) {
            pass.keep_layer_input(i, x);
        }
    }

    /// Layer `i`.
    fn run_layer(&self, i: usize, streams: &mut Vec<Rows>, pass: &mut Pass<'_, '_>) {
        match &self.streams {
            Streams::One => {
                self.layers[i].run(i, &mut streams[0], pass);
                pass.add_deep_features(i, &mut streams[0]);
            }
            Streams::AltUp(altup) => altup.run_layer(i, &self.layers[i], streams, pass),
            Streams::Hyper(hyper) => hyper.run_layer(i, &self.layers[i], streams, pass),
            Streams::Gated(gated) => gated.run_layer(i, &self.layers[i], streams, pass),
            Streams::Bank(bank) => bank.run_layer(i, &self.layers[i], streams, pass),
            Streams::Repeats(repeats) => {
                let stored = repeats.enter(i, streams);
                self.layers[stored].run(i, &mut streams[0], pass);
                repeats.leave(i, streams);
            }
        }
    }

    /// The wanted rows, normalized: (n_wanted, n_embd).
    fn end(&self, mut streams: Vec<Rows>, pass: &mut Pass<'_, '_>) -> Rows {
        let x = match &self.streams {
            Streams::AltUp(altup) => altup.end(&streams, pass),
            Streams::Hyper(hyper) => hyper.end(&streams, pass),
            Streams::Gated(gated) => gated.end(&streams, pass),
            Streams::Bank(bank) => bank.end(&streams, pass),
            Streams::One | Streams::Repeats(_) => streams.swap_remove(0),
        };
        // From here on only the wanted rows count: for perplexity half, in generation one.
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
        for i in 0..self.n_runs() {
            self.keep_input(i, &streams, pass);
            self.run_layer(i, &mut streams, pass);
        }
        self.keep_input(self.n_runs(), &streams, pass);
        Ok(self.end(streams, pass))
    }

    /// Before the layers, each layer, and after the layers. Layers that run more than once are one step, so that
    /// all inputs of a matrix are in the same step.
    fn n_steps(&self) -> usize {
        match &self.streams {
            Streams::Repeats(_) => 1,
            _ => self.layers.len() + 2,
        }
    }

    fn step(
        &self,
        index: usize,
        mut streams: Vec<Rows>,
        pass: &mut Pass<'_, '_>,
    ) -> Result<Vec<Rows>, Error> {
        if let Streams::Repeats(_) = &self.streams {
            return Ok(vec![self.run(pass)?]);
        }
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
        let whole = match &self.streams {
            Streams::Repeats(_) => Some("its repeated layers"),
            Streams::AltUp(_) | Streams::Hyper(_) | Streams::Gated(_) | Streams::Bank(_) => {
                Some("its several residual streams")
            }
            Streams::One if self.switch.is_some() => Some("its built-in adapters"),
            Streams::One if self.per_layer_inputs.is_some() => Some("the per-layer token inputs"),
            Streams::One => None,
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
        let stored = |i| match &self.streams {
            Streams::Repeats(repeats) => repeats.stored(i),
            _ => i,
        };
        let more = |i| match &self.streams {
            Streams::Gated(gated) => gated.state_size(i),
            _ => None,
        };
        let sizes = |i| self.layers[stored(i)].state_sizes().into_iter().chain(more(i)).collect();
        (0..self.n_runs()).map(sizes).chain([self.more_cached.clone()]).collect()
    }
}
