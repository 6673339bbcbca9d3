//! A layer: attention and a feed-forward part around a residual stream.

use super::{Shape, attention::Attention, experts::Experts, latent::Latent, mlp::Mlp};
use crate::{
    Error,
    graph::Pass,
    keys::Keys,
    ops::{Norm, Rows, add_scaled, copy},
    weights::Weights,
};

pub(super) struct Layer {
    attention_norm: Option<Norm>,
    /// Of the attention alone, where the feed-forward part has [`Layer::attention_norm`].
    second_norm: Option<Norm>,
    attention: Seeing,
    attention_post_norm: Option<Norm>,
    /// Of the stream behind the attention.
    stream_norm: Option<Norm>,
    /// The same once more, with what was before the attention added again.
    second_stream_norm: Option<Norm>,
    mlp_norm: Option<Norm>,
    feed_forward: FeedForward,
    mlp_post_norm: Option<Norm>,
    /// Of the stream behind the layer.
    end_norm: Option<Norm>,
    /// Whether the feed-forward part takes what the attention takes, not what it gives.
    is_parallel: bool,
    residual_scale: f32,
}

enum Seeing {
    Heads(Box<Attention>),
    Latent(Box<Latent>),
}

enum FeedForward {
    Mlp(Box<Mlp>),
    Experts(Box<Experts>),
}

impl Layer {
    pub fn open(shape: &Shape, keys: &Keys<'_>, weights: &mut Weights<'_>, i: usize) -> Result<Layer, Error> {
        let blk = |name: &str| format!("blk.{i}.{name}");
        let n_embd = shape.n_embd;
        let attention_norm = shape.norm(weights, &blk("attn_norm"), n_embd)?;
        let mlp_norm = shape.norm(weights, &blk(shape.spec.mlp_norm), n_embd)?;
        let attention_post_norm = match shape.spec.mlp_norm {
            "post_attention_norm" => None,
            _ => shape.norm_if_there(weights, &blk("post_attention_norm"), n_embd)?,
        };
        let mlp_post_norm = shape.norm_if_there(weights, &blk("post_ffw_norm"), n_embd)?;
        let stream_norm = match shape.spec.mlp_norm {
            "attn_output_norm" => None,
            _ => shape.norm_if_there(weights, &blk("attn_output_norm"), n_embd)?,
        };
        let shares_norm = mlp_norm.is_none() && mlp_post_norm.is_none() && stream_norm.is_none();
        let second_norm = shape.norm_if_there(weights, &blk("attn_norm_2"), n_embd)?;
        let (second_norm, second_stream_norm) =
            if stream_norm.is_some() { (None, second_norm) } else { (second_norm, None) };
        let feed_forward = match Experts::open(shape, keys, weights, i)? {
            Some(experts) => FeedForward::Experts(Box::new(experts)),
            None => {
                let names = ["gate", "up", "down"].map(|part| blk(&format!("ffn_{part}")));
                let mut mlp = Mlp::open(shape, weights, names)?;
                // Jina's code embeddings have the halves the other way round than its text embeddings,
                // and this norm. The reference takes them for the same.
                mlp.gate_first = second_stream_norm.is_none();
                FeedForward::Mlp(Box::new(mlp))
            }
        };
        let attention = match Latent::open(shape, keys, weights, i)? {
            Some(latent) => Seeing::Latent(Box::new(latent)),
            None => Seeing::Heads(Box::new(Attention::open(shape, keys, weights, i)?)),
        };
        Ok(Layer {
            attention_norm,
            second_norm,
            attention,
            attention_post_norm,
            stream_norm,
            second_stream_norm,
            mlp_norm,
            feed_forward,
            mlp_post_norm,
            end_norm: shape.norm_if_there(weights, &blk("layer_output_norm"), n_embd)?,
            is_parallel: shares_norm || keys.flag("use_parallel_residual", false)?,
            residual_scale: shape.residual_scale,
        })
    }

    /// Floats that are alive at once for each token, about.
    pub fn row_floats(&self) -> usize {
        let feed_forward = match &self.feed_forward {
            FeedForward::Mlp(mlp) => mlp.row_floats(),
            FeedForward::Experts(experts) => experts.row_floats(),
        };
        let attention = match &self.attention {
            Seeing::Heads(heads) => heads.row_floats(),
            Seeing::Latent(latent) => latent.row_floats(),
        };
        attention.max(feed_forward)
    }

    /// Adds what attention and the feed-forward part make of `x` (n, n_embd) to it.
    pub fn run(&self, index: usize, x: &mut Rows, pass: &mut Pass<'_, '_>) {
        let mut normed = pass.take(x.nrows(), x.ncols());
        let norm = |norm: &Option<Norm>, from: &Rows, to: &mut Rows| match norm {
            Some(norm) => norm.apply_into(from, to),
            None => copy(from, to),
        };
        norm(
            if self.second_norm.is_some() { &self.second_norm } else { &self.attention_norm },
            x,
            &mut normed,
        );
        let mut seen = match &self.attention {
            Seeing::Heads(heads) => heads.run(index, &normed, pass),
            Seeing::Latent(latent) => latent.run(index, &normed, pass),
        };
        if let Some(norm) = &self.attention_post_norm {
            norm.apply(&mut seen);
        }
        if self.is_parallel {
            if self.mlp_norm.is_some() {
                norm(&self.mlp_norm, x, &mut normed);
            } else if self.second_norm.is_some() {
                norm(&self.attention_norm, x, &mut normed);
            }
            add_scaled(x, self.residual_scale, &seen);
        } else {
            add_scaled(x, self.residual_scale, &seen);
            if let Some(norm) = &self.stream_norm {
                norm.apply(x);
            }
            if let Some(norm) = &self.second_stream_norm {
                // Such layers normalize nothing before the attention.
                add_scaled(x, 1.0, &normed);
                norm.apply(x);
            }
            norm(&self.mlp_norm, x, &mut normed);
        }
        pass.give(seen);
        let mut made = match &self.feed_forward {
            FeedForward::Mlp(mlp) => mlp.run(&normed, pass),
            FeedForward::Experts(experts) => experts.run(&normed, pass),
        };
        if let Some(norm) = &self.mlp_post_norm {
            norm.apply(&mut made);
        }
        add_scaled(x, self.residual_scale, &made);
        if let Some(norm) = &self.end_norm {
            norm.apply(x);
        }
        pass.give(made);
        pass.give(normed);
    }
}
