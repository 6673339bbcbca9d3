//! A layer: attention or what stands for it, and a feed-forward part, around a residual stream.

use super::{
    Shape,
    experts::Experts,
    mixer::{self, ChannelMix, Mixer},
    mlp::Mlp,
};
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
    /// What lets tokens see earlier ones; what several of them give adds up.
    mixers: Vec<Box<dyn Mixer>>,
    attention_post_norm: Option<Norm>,
    /// Of the stream behind the attention.
    stream_norm: Option<Norm>,
    /// The same once more, with what was before the attention added again.
    second_stream_norm: Option<Norm>,
    mlp_norm: Option<Norm>,
    feed_forward: Option<FeedForward>,
    mlp_post_norm: Option<Norm>,
    /// Of the stream behind the layer.
    end_norm: Option<Norm>,
    /// Whether the feed-forward part takes what the attention takes, not what it gives.
    is_parallel: bool,
    residual_scale: f32,
    /// What the stream is multiplied with behind the layer.
    rescale: Option<f32>,
}

enum FeedForward {
    Mlp(Box<Mlp>),
    Experts(Box<Experts>),
    ChannelMix(Box<ChannelMix>),
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
        let mixers = mixer::open_all(shape, keys, weights, i)?;
        let feed_forward = FeedForward::open(shape, keys, weights, i)?;
        // What a second norm is for: Jina's code embeddings normalize the stream once more, RWKV what goes into
        // the feed-forward part, others what goes into attention.
        let second_norm = shape.norm_if_there(weights, &blk("attn_norm_2"), n_embd)?;
        let (second_norm, second_stream_norm, mlp_norm) = match &feed_forward {
            _ if stream_norm.is_some() => (None, second_norm, mlp_norm),
            Some(FeedForward::ChannelMix(_)) => (None, None, mlp_norm.or(second_norm)),
            _ => (second_norm, None, mlp_norm),
        };
        let shares_norm = mlp_norm.is_none() && mlp_post_norm.is_none() && stream_norm.is_none();
        let period = keys.count("rescale_every_n_layers")?.unwrap_or(0);
        Ok(Layer {
            attention_norm,
            second_norm,
            mixers,
            attention_post_norm,
            stream_norm,
            second_stream_norm,
            mlp_norm,
            feed_forward,
            mlp_post_norm,
            end_norm: shape.norm_if_there(weights, &blk("layer_output_norm"), n_embd)?,
            is_parallel: shares_norm || keys.flag("use_parallel_residual", false)?,
            residual_scale: shape.residual_scale,
            rescale: (period != 0 && (i + 1).is_multiple_of(period)).then_some(0.5),
        })
    }

    /// Floats that are alive at once for each token, about.
    pub fn row_floats(&self) -> usize {
        let feed_forward = self.feed_forward.as_ref().map_or(0, FeedForward::row_floats);
        self.mixers.iter().map(|mixer| mixer.row_floats()).max().unwrap_or(0).max(feed_forward)
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
        let mut seen = self.mix(index, &normed, pass);
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
        if let Some(feed_forward) = &self.feed_forward {
            let mut made = feed_forward.run(index, &normed, pass);
            if let Some(norm) = &self.mlp_post_norm {
                norm.apply(&mut made);
            }
            add_scaled(x, self.residual_scale, &made);
            pass.give(made);
        }
        if let Some(norm) = &self.end_norm {
            norm.apply(x);
        }
        pass.give(normed);
        if let Some(rescale) = self.rescale {
            *x *= rescale;
        }
    }

    /// What all mixers make of the same rows, added up.
    fn mix(&self, index: usize, h: &Rows, pass: &mut Pass<'_, '_>) -> Rows {
        let mut seen: Option<Rows> = None;
        for mixer in &self.mixers {
            let more = mixer.run(index, h, pass);
            match &mut seen {
                None => seen = Some(more),
                Some(seen) => {
                    add_scaled(seen, 1.0, &more);
                    pass.give(more);
                }
            }
        }
        seen.unwrap_or_else(|| Rows::zeros(h.raw_dim()))
    }
}

impl FeedForward {
    /// That of layer `i`; the layers of Mamba have none.
    fn open(
        shape: &Shape,
        keys: &Keys<'_>,
        weights: &mut Weights<'_>,
        i: usize,
    ) -> Result<Option<FeedForward>, Error> {
        let blk = |name: &str| format!("blk.{i}.{name}");
        if let Some(mix) = ChannelMix::open(shape, keys, weights, i)? {
            return Ok(Some(FeedForward::ChannelMix(Box::new(mix))));
        }
        if let Some(experts) = Experts::open(shape, keys, weights, i)? {
            return Ok(Some(FeedForward::Experts(Box::new(experts))));
        }
        let has = |name: &str| weights.shape(&blk(name)).is_some();
        if has("ssm_out.weight") && !has("ffn_down.weight") {
            return Ok(None);
        }
        let names = ["gate", "up", "down"].map(|part| blk(&format!("ffn_{part}")));
        // Jina's code embeddings have the halves the other way round than its text embeddings, and a second
        // norm of the stream. The reference takes them for the same.
        let gate_first = !(has("attn_output_norm.weight") && has("attn_norm_2.weight"));
        let mut mlp = Mlp::open(shape, weights, names)?;
        mlp.gate_first = gate_first;
        Ok(Some(FeedForward::Mlp(Box::new(mlp))))
    }

    /// Floats that are alive at once for each token, about.
    fn row_floats(&self) -> usize {
        match self {
            FeedForward::Mlp(mlp) => mlp.row_floats(),
            FeedForward::Experts(experts) => experts.row_floats(),
            FeedForward::ChannelMix(mix) => mix.row_floats(),
        }
    }

    /// `h (n, n_embd) -> (n, n_embd)`.
    fn run(&self, index: usize, h: &Rows, pass: &mut Pass<'_, '_>) -> Rows {
        match self {
            FeedForward::Mlp(mlp) => mlp.run(h, pass),
            FeedForward::Experts(experts) => experts.run(h, pass),
            FeedForward::ChannelMix(mix) => mix.run(index, h, pass),
        }
    }
}
