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
mod spec;

use ndarray::Axis;
use quant::Level;

use crate::{
    Error,
    graph::{Graph, Head, Pass, Prepared},
    keys::Keys,
    ops::{Activation, Norm, NormKind, Rows, add_bias},
    weights::{Weight, Weights},
};
use layer::Layer;
pub(crate) use spec::{Alibi, EmbeddingScale, Gating, LogitScale, RopeLayers, Spec, Temperature};
pub(crate) use {linear::Linear, mlp::Mlp};

/// A decoder with its weights.
struct Decoder {
    embedding: Weight,
    embedding_scale: f32,
    embedding_norm: Option<Norm>,
    positions: Option<Weight>,
    /// What the first kind of text adds to every row.
    text_kind: Option<Vec<f32>>,
    layers: Vec<Layer>,
    output_norm: Option<Norm>,
}

/// What the layers of a file have in common.
pub(crate) struct Shape {
    spec: Spec,
    n_embd: usize,
    n_layer: usize,
    epsilon: f32,
    /// What both parts of a layer are multiplied with before they are added to the stream.
    residual_scale: f32,
}

/// Reads a decoder of this family.
pub(crate) fn open(mut spec: Spec, keys: &Keys<'_>, weights: &mut Weights<'_>) -> Result<Prepared, Error> {
    let n_embd = keys.need_count("embedding_length")?;
    // Layers that predict further tokens come last, and are not run.
    let n_further = keys.count("nextn_predict_layers")?.unwrap_or(0);
    let n_all = keys.need_count("block_count")?;
    let part = || keys.wrong("nextn_predict_layers", "a part of the layers");
    let n_layer = n_all.checked_sub(n_further).ok_or_else(part)?;
    weights.pass_over_layers(n_layer, n_all);
    let epsilon = match spec.norm {
        NormKind::Rms => keys.need_float("attention.layer_norm_rms_epsilon")?,
        NormKind::Layer => {
            // Some have it under the other name too, or under that alone (ModernBERT, Phi 3.5 MoE).
            let epsilon = keys.float("attention.layer_norm_epsilon")?;
            let epsilon = epsilon.or(keys.float("attention.layer_norm_rms_epsilon")?);
            epsilon.ok_or_else(|| keys.missing("attention.layer_norm_epsilon"))?
        }
    };
    if !spec.predicts && keys.text("hidden_activation")? == Some("silu") {
        spec.activation = Activation::Silu;
    }
    let residual_scale = match keys.architecture.as_str() {
        "minicpm" => keys.float("residual_scale")?.unwrap_or(1.4 / (n_layer as f32).sqrt()),
        _ => keys.float("residual_scale")?.unwrap_or(1.0),
    };
    let shape = Shape { spec, n_embd, n_layer, epsilon, residual_scale };
    let n_vocab = weights.shape("token_embd.weight").map_or(0, |shape| shape.dim(1) as usize);
    let embedding = weights.need_matrix("token_embd.weight", n_embd, n_vocab)?;
    let embedding_scale = match spec.embedding_scale {
        EmbeddingScale::Key(default) => keys.float("embedding_scale")?.unwrap_or(default),
        EmbeddingScale::Root => (n_embd as f32).sqrt(),
    };
    let n_positions = weights.shape("position_embd.weight").map_or(0, |shape| shape.dim(1) as usize);
    let positions = weights.matrix("position_embd.weight", n_embd, n_positions)?;
    let text_kind = text_kind(weights, n_embd)?;
    let early_norm = shape.norm_if_there(weights, "token_embd_norm", n_embd)?;
    let head = match spec.predicts {
        true => Some(head(&spec, keys, weights, &embedding)?),
        false => None,
    };
    let output_norm = shape.norm(weights, "output_norm", n_embd)?;
    let (embedding_norm, output_norm) =
        if spec.early_norm_name { (None, output_norm.or(early_norm)) } else { (early_norm, output_norm) };
    let layers =
        (0..n_layer).map(|i| Layer::open(&shape, keys, weights, i)).collect::<Result<Vec<_>, _>>()?;
    let row_floats = layers.iter().map(Layer::row_floats).max().unwrap_or(0) + 3 * n_embd;
    let decoder =
        Decoder { embedding, embedding_scale, embedding_norm, positions, text_kind, layers, output_norm };
    Ok(Prepared { graph: Box::new(decoder), head, n_vocab, n_embd, row_floats })
}

fn head(spec: &Spec, keys: &Keys<'_>, weights: &mut Weights<'_>, embedding: &Weight) -> Result<Head, Error> {
    let (n_embd, n_vocab) = (embedding.n_in, embedding.n_out);
    Ok(Head {
        weight: weights.matrix("output.weight", n_embd, n_vocab)?.unwrap_or_else(|| embedding.clone()),
        bias: weights.vector("output.bias", n_vocab)?,
        scale: match (keys.float("logit_scale")?, spec.logit_scale) {
            (None | Some(0.0), _) => 1.0,
            (Some(scale), LogitScale::Multiply) => scale,
            (Some(scale), LogitScale::Divide) => 1.0 / scale,
        },
        soft_cap: cap(keys.float("final_logit_softcapping")?, spec.soft_caps.1),
    })
}

/// The row of the first kind of text, where texts have kinds: as the reference, all are of the first.
fn text_kind(weights: &mut Weights<'_>, n_embd: usize) -> Result<Option<Vec<f32>>, Error> {
    let name = "token_types.weight";
    let n = weights.shape(name).map_or(0, |shape| shape.dim(1) as usize);
    let Some(kinds) = weights.matrix(name, n_embd, n)?.filter(|kinds| kinds.n_out > 0) else {
        return Ok(None);
    };
    let mut row = vec![0.0; n_embd];
    kinds.decode(Level::detect(), 0..1, &mut row).expect("a weight of a checked type decodes");
    Ok(Some(row))
}

/// The cap that a key says, or the family's; 0 is none.
fn cap(key: Option<f32>, default: f32) -> Option<f32> {
    Some(key.unwrap_or(default)).filter(|cap| *cap > 0.0)
}

impl Shape {
    /// What [`Mlp`] needs to know, for graphs of their own.
    pub fn plain(spec: Spec, n_embd: usize, n_layer: usize) -> Shape {
        Shape { spec, n_embd, n_layer, epsilon: 0.0, residual_scale: 1.0 }
    }

    /// The norm of this name, if its weights or its bias are there, or if the family normalizes without.
    fn norm(&self, weights: &mut Weights<'_>, name: &str, n: usize) -> Result<Option<Norm>, Error> {
        let plain = Norm { kind: self.spec.norm, epsilon: self.epsilon, weight: None, bias: None };
        let norm = self.norm_if_there(weights, name, n)?;
        Ok(norm.or(self.spec.plain_norms.then_some(plain)))
    }

    /// The norm of this name, if its weights or its bias are there.
    fn norm_if_there(&self, weights: &mut Weights<'_>, name: &str, n: usize) -> Result<Option<Norm>, Error> {
        // The reference writes one of Falcon-H1's norms without an ending.
        let weight = match weights.vector(&format!("{name}.weight"), n)? {
            Some(weight) => Some(weight),
            None => weights.vector(name, n)?,
        };
        let bias = weights.vector(&format!("{name}.bias"), n)?;
        let is_there = weight.is_some() || bias.is_some();
        Ok(is_there.then_some(Norm { kind: self.spec.norm, epsilon: self.epsilon, weight, bias }))
    }
}

impl Graph for Decoder {
    fn run(&self, pass: &mut Pass<'_, '_>) -> Result<Rows, Error> {
        let mut x = pass.embed(&self.embedding)?;
        if self.embedding_scale != 1.0 {
            x *= self.embedding_scale;
        }
        if let Some(positions) = &self.positions {
            x += &pass.embed_positions(positions)?;
        }
        if let Some(kind) = &self.text_kind {
            add_bias(&mut x, kind);
        }
        if let Some(norm) = &self.embedding_norm {
            norm.apply(&mut x);
        }
        for (i, layer) in self.layers.iter().enumerate() {
            layer.run(i, &mut x, pass);
        }
        let mut wanted = x.select(Axis(0), &pass.wanted_rows());
        pass.give(x);
        if let Some(norm) = &self.output_norm {
            norm.apply(&mut wanted);
        }
        Ok(wanted)
    }
}
