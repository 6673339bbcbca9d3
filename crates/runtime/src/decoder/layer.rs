//! A layer: attention or another mixer, and a feed-forward part, around a residual stream.
//!
//! The norms that are present determine the order of steps. With `A` for the mixers, `F` for the feed-forward
//! part and `n1..` for norms:
//!
//! ```text
//! pre-norm       Llama, Qwen, GPT-2, ...            x += A(n1 x);          x += F(n2 x)
//! post-norm      OLMo 2, EXAONE 4                   x += n1 A(x);          x += n2 F(x)
//! sandwich       Gemma 2 and 3, GLM 4               x += n2 A(n1 x);       x += n4 F(n3 x)
//! parallel       GPT-J, Phi 2, Command R, Falcon 7B x += A(n1 x) + F(n1 x)
//! parallel, two  GPT-NeoX; Falcon 40B               x += A(n1 x) + F(n2 x)
//! of the stream  BERT and its kind                  x = n1(x + A(x));      x = n2(x + F(x))
//! twice          Jina's code embeddings             y = n1(x + A(x)); x = n2(y + x); x = n3(x + F(x))
//! only a mixer   Mamba, Nemotron-H                  x += A(n1 x)
//! or not         Nemotron-H                         x += F(n1 x)
//! ```
//!
//! Gemma 3n adds a second path after the mixers, Gemma 4 the layer's own input after the feed-forward part.
//! Granite and MiniCPM scale each contribution to `x`.

mod backward;

use super::{
    experts::Experts,
    laurel::Laurel,
    mixer::{ChannelMix, Mixer},
    mlp::Mlp,
    mlp_with_experts::MlpWithExperts,
    params::DecoderParams,
    per_layer_input::PerLayerInput,
    select,
};
use crate::{
    Error,
    keys::Keys,
    ops::{Norm, Rows},
    pass::Pass,
    state_size::StateSize,
    weights::Weights,
};

pub(super) struct Layer {
    attention_norm: Option<Norm>,
    /// Only before the attention, if the feed-forward part has [`Layer::attention_norm`] (Falcon 40B).
    second_norm: Option<Norm>,
    /// Mixers, which let tokens see earlier ones; the outputs of several are summed (Falcon-H1).
    mixers: Vec<Box<dyn Mixer>>,
    attention_post_norm: Option<Norm>,
    /// Norm of the residual stream after attention.
    stream_norm: Option<Norm>,
    /// Like this, once more, with the stream from before the attention added again.
    second_stream_norm: Option<Norm>,
    /// A second path around the mixers.
    laurel: Option<Laurel>,
    mlp_norm: Option<Norm>,
    feed_forward: Option<FeedForward>,
    mlp_post_norm: Option<Norm>,
    /// Added after the feed-forward part.
    per_layer_input: Option<PerLayerInput>,
    /// Factor of the embedding that is added after the layer.
    embedding_scale: Option<f32>,
    /// Norm of the residual stream after the layer.
    end_norm: Option<Norm>,
    /// True if the feed-forward part reads the same rows as attention.
    is_parallel: bool,
    /// True if experts are chosen by the residual stream from before attention.
    routes_before_attention: bool,
    residual_scale: f32,
    /// Factor of the residual stream after the layer.
    rescale: Option<f32>,
}

enum FeedForward {
    Mlp(Box<Mlp>),
    Experts(Box<Experts>),
    /// Chosen by the residual stream from before attention.
    ExpertsByStream(Box<Experts>),
    MlpWithExperts(Box<MlpWithExperts>),
    ChannelMix(Box<ChannelMix>),
}

impl Layer {
    pub fn open(
        params: &DecoderParams,
        keys: &Keys<'_>,
        weights: &mut Weights<'_>,
        i: usize,
    ) -> Result<Layer, Error> {
        let blk = |name: &str| format!("blk.{i}.{name}");
        let n_embd = params.n_embd;
        let attention_norm = params.norm(weights, &blk("attn_norm"), n_embd)?;
        let mlp_norm = params.norm(weights, &blk(params.spec.mlp_norm), n_embd)?;
        // Two names are synonyms in most files but not in some: if the norm before the feed-forward part is
        // stored under a name, that name is not the norm after attention.
        let attention_post_norm = match params.spec.mlp_norm {
            "post_attention_norm" => None,
            _ => params.post_norm(weights, &blk("post_attention_norm"), n_embd)?,
        };
        let mlp_post_norm = params.post_norm(weights, &blk("post_ffw_norm"), n_embd)?;
        let stream_norm = match params.spec.mlp_norm {
            "attn_output_norm" => None,
            _ => params.optional_norm(weights, &blk("attn_output_norm"), n_embd)?,
        };
        let end_norm = params.optional_norm(weights, &blk("layer_output_norm"), n_embd)?;
        let (attention_post_norm, stream_norm, mlp_post_norm, end_norm) = if params.spec.norms_parts {
            (attention_post_norm.or(stream_norm), None, mlp_post_norm.or(end_norm), None)
        } else {
            (attention_post_norm, stream_norm, mlp_post_norm, end_norm)
        };
        // Chameleon 34B has the norms of both parts after them.
        let (attention_norm, attention_post_norm, mlp_norm, mlp_post_norm) =
            if keys.flag("swin_norm", false)? {
                (None, attention_norm, None, mlp_norm)
            } else {
                (attention_norm, attention_post_norm, mlp_norm, mlp_post_norm)
            };
        let mixers =
            if params.has_mixers(i) { select::mixers(params, keys, weights, i)? } else { Vec::new() };
        let feed_forward =
            if params.has_feed_forward(i) { FeedForward::open(params, keys, weights, i)? } else { None };
        // The role of `attn_norm_2` depends on the family: in Jina's code embeddings a further norm of the
        // stream, in RWKV the one before the feed-forward part, in Falcon 40B the one before attention.
        let second_norm = params.optional_norm(weights, &blk("attn_norm_2"), n_embd)?;
        let (second_norm, second_stream_norm, mlp_norm) = match &feed_forward {
            _ if stream_norm.is_some() => (None, second_norm, mlp_norm),
            Some(FeedForward::ChannelMix(_)) => (None, None, mlp_norm.or(second_norm)),
            _ => (second_norm, None, mlp_norm),
        };
        // If there is no other norm for the feed-forward part, it shares the attention's norm.
        let shares_norm = mlp_norm.is_none() && mlp_post_norm.is_none() && stream_norm.is_none();
        // RWKV 6 halves the stream every few layers to stay in the range of f16, and its weights are stored for that.
        let period = keys.count("rescale_every_n_layers")?.unwrap_or(0);
        let halved = (period != 0 && (i + 1).is_multiple_of(period)).then_some(0.5);
        let scale = weights.vector(&blk("layer_output_scale.weight"), 1)?.map(|scale| scale[0]);
        let (embedding_scale, scale) = if params.spec.adds_embedding { (scale, None) } else { (None, scale) };
        // With several streams it is not added to only that of the layer.
        let per_layer_input = match weights.shape(&blk("altup_router.weight")) {
            None => PerLayerInput::open(params, keys, weights, i)?,
            Some(_) => None,
        };
        Ok(Layer {
            attention_norm,
            second_norm,
            mixers,
            attention_post_norm,
            stream_norm,
            second_stream_norm,
            laurel: Laurel::open(params, weights, i)?,
            mlp_norm,
            feed_forward,
            mlp_post_norm,
            per_layer_input,
            embedding_scale,
            end_norm,
            routes_before_attention: params.spec.routes_before_attention,
            is_parallel: shares_norm || keys.flag("use_parallel_residual", false)?,
            residual_scale: params.residual_scale,
            rescale: scale.or(halved),
        })
    }

    /// Floats that are alive at once for each token, about.
    pub fn row_floats(&self) -> usize {
        let feed_forward = self.feed_forward.as_ref().map_or(0, FeedForward::row_floats);
        self.mixers.iter().map(|mixer| mixer.row_floats()).max().unwrap_or(0).max(feed_forward)
    }

    /// State of its parts per sequence.
    pub fn state_sizes(&self) -> Vec<StateSize> {
        let mixers = self.mixers.iter().map(|mixer| mixer.state_size());
        let more = self.mixers.iter().filter_map(|mixer| mixer.more_state());
        mixers.chain(more).chain(self.feed_forward.as_ref().map(FeedForward::state_size)).collect()
    }

    /// Adds what the mixers and the feed-forward part make of `x` (n, n_embd) to it.
    pub fn run(&self, index: usize, x: &mut Rows, pass: &mut Pass<'_, '_>) {
        let entered = self.routes_before_attention.then(|| x.clone());
        let mut h = pass.scratch(x.nrows(), x.ncols());
        let norm = |norm: &Option<Norm>, from: &Rows, to: &mut Rows| match norm {
            Some(norm) => norm.apply_into(from, to),
            None => to.copy_from(from),
        };
        // Step 1: the mixers, of the normalized stream.
        norm(if self.second_norm.is_some() { &self.second_norm } else { &self.attention_norm }, x, &mut h);
        let mut mixed = self.mix(index, &h, pass);
        if let Some(norm) = &self.attention_post_norm {
            norm.apply(&mut mixed);
        }

        // Step 2: input of the feed-forward part. In parallel layers it is the stream before the mixers were
        // added, with the norm that `h` already holds unless there are two; otherwise the stream with the
        // mixers' output.
        if self.is_parallel {
            if self.mlp_norm.is_some() {
                norm(&self.mlp_norm, x, &mut h);
            } else if self.second_norm.is_some() {
                norm(&self.attention_norm, x, &mut h);
            }
            x.add_scaled(self.residual_scale, &mixed);
        } else {
            x.add_scaled(self.residual_scale, &mixed);
            if let Some(norm) = &self.stream_norm {
                norm.apply(x);
            }
            if let Some(norm) = &self.second_stream_norm {
                // Such layers normalize nothing before the attention, so `h` is the stream from before it.
                x.add_scaled(1.0, &h);
                norm.apply(x);
            }
            if let Some(laurel) = &self.laurel {
                laurel.add(x, &h, pass);
            }
            norm(&self.mlp_norm, x, &mut h);
        }
        drop(mixed);

        // Step 3: the feed-forward part, and changes of the stream after it.
        if let Some(feed_forward) = &self.feed_forward {
            let mut y = feed_forward.run(index, entered.as_ref().unwrap_or(x), &h, pass);
            drop(entered);
            if let Some(norm) = &self.mlp_post_norm {
                norm.apply(&mut y);
            }
            x.add_scaled(self.residual_scale, &y);
        }
        if let Some(input) = &self.per_layer_input {
            let more = input.run(x, pass);
            x.add_scaled(1.0, &more);
        }
        if let (Some(scale), Some(embedded)) = (self.embedding_scale, &pass.embedded) {
            x.add_scaled(scale, embedded);
        }
        if let Some(norm) = &self.end_norm {
            norm.apply(x);
        }
        if let Some(rescale) = self.rescale {
            *x *= rescale;
        }
    }

    /// Output of only the mixers, of a stream `x` (n, n_embd).
    pub fn run_mixers(&self, index: usize, x: &Rows, pass: &mut Pass<'_, '_>) -> Rows {
        let h = normalized(self.attention_norm.as_ref(), x, pass);
        let mut mixed = self.mix(index, &h, pass);
        if let Some(norm) = &self.attention_post_norm {
            norm.apply(&mut mixed);
        }
        mixed
    }

    /// Output of only the feed-forward part, of a stream `x` (n, n_embd).
    pub fn run_feed_forward(&self, index: usize, x: &Rows, pass: &mut Pass<'_, '_>) -> Rows {
        let h = normalized(self.mlp_norm.as_ref(), x, pass);
        let Some(feed_forward) = &self.feed_forward else { return pass.zeros(x.nrows(), x.ncols()) };
        let mut y = feed_forward.run(index, x, &h, pass);
        if let Some(norm) = &self.mlp_post_norm {
            norm.apply(&mut y);
        }
        y
    }

    /// The sum of what all mixers make of the same rows.
    fn mix(&self, index: usize, h: &Rows, pass: &mut Pass<'_, '_>) -> Rows {
        let mut sum: Option<Rows> = None;
        for mixer in &self.mixers {
            let more = mixer.run(index, h, pass);
            match &mut sum {
                None => sum = Some(more),
                Some(sum) => sum.add_scaled(1.0, &more),
            }
        }
        sum.unwrap_or_else(|| pass.zeros(h.nrows(), h.ncols()))
    }
}

/// Rows after a norm, or as they are.
fn normalized(norm: Option<&Norm>, x: &Rows, pass: &Pass<'_, '_>) -> Rows {
    let mut h = pass.scratch(x.nrows(), x.ncols());
    match norm {
        Some(norm) => norm.apply_into(x, &mut h),
        None => h.copy_from(x),
    }
    h
}

impl FeedForward {
    /// Feed-forward part of layer `i`; Mamba layers lack one.
    fn open(
        params: &DecoderParams,
        keys: &Keys<'_>,
        weights: &mut Weights<'_>,
        i: usize,
    ) -> Result<Option<FeedForward>, Error> {
        let blk = |name: &str| format!("blk.{i}.{name}");
        if let Some(mix) = ChannelMix::open(params, weights, i)? {
            return Ok(Some(FeedForward::ChannelMix(Box::new(mix))));
        }
        if let Some(both) = MlpWithExperts::open(params, keys, weights, i)? {
            return Ok(Some(FeedForward::MlpWithExperts(Box::new(both))));
        }
        if let Some(experts) = Experts::open(params, keys, weights, i)? {
            return Ok(Some(if params.spec.routes_before_attention {
                FeedForward::ExpertsByStream(Box::new(experts))
            } else {
                FeedForward::Experts(Box::new(experts))
            }));
        }
        let has = |name: &str| weights.shape(&blk(name)).is_some();
        let length = keys.counts("feed_forward_length", params.n_layer)?.map(|lengths| lengths[i]);
        if (has("ssm_out.weight") || length == Some(0)) && !has("ffn_down.weight") {
            return Ok(None);
        }
        let names = ["gate", "up", "down"].map(|part| blk(&format!("ffn_{part}")));
        // In Jina's code embeddings, known by their second norm of the stream, the gate is the second half of the fused
        // matrix; in its text embeddings the first. The reference takes them for the same.
        let gate_first = !(has("attn_output_norm.weight") && has("attn_norm_2.weight"));
        let activation = params.activation(keys, i, "swiglu_clamp_shexp")?;
        let mut mlp = Mlp::open(activation, params.n_embd, weights, names)?;
        mlp.gate_first = gate_first;
        mlp.inner_norm = params.optional_norm(weights, &blk("ffn_sub_norm"), mlp.n_inner())?;
        // As many deviations below the mean as can be: none is left out.
        let sparsity = keys.floats("activation_sparsity_scale", params.n_layer)?.map(|all| all[i]);
        mlp.sparsity = sparsity.filter(|deviations| deviations.is_finite());
        Ok(Some(FeedForward::Mlp(Box::new(mlp))))
    }

    /// Floats that are alive at once for each token, about.
    fn row_floats(&self) -> usize {
        match self {
            FeedForward::Mlp(mlp) => mlp.row_floats(),
            FeedForward::Experts(experts) | FeedForward::ExpertsByStream(experts) => experts.row_floats(),
            FeedForward::MlpWithExperts(both) => both.row_floats(),
            FeedForward::ChannelMix(mix) => mix.row_floats(),
        }
    }

    fn state_size(&self) -> StateSize {
        let graph_floats = match self {
            FeedForward::Mlp(mlp) => mlp.graph_floats(),
            FeedForward::Experts(experts) | FeedForward::ExpertsByStream(experts) => experts.graph_floats(),
            FeedForward::MlpWithExperts(both) => both.graph_floats(),
            FeedForward::ChannelMix(mix) => return mix.state_size(),
        };
        StateSize { graph_floats, ..StateSize::default() }
    }

    /// `x (n, n_embd)`, the residual stream, possibly from before attention, and `h`, the stream after it,
    /// normalized, `-> (n, n_embd)`.
    fn run(&self, index: usize, x: &Rows, h: &Rows, pass: &mut Pass<'_, '_>) -> Rows {
        match self {
            FeedForward::Mlp(mlp) => mlp.run(h, pass),
            FeedForward::ExpertsByStream(experts) => experts.run_routed_by(x, h, pass),
            FeedForward::Experts(experts) => experts.run(h, pass),
            FeedForward::MlpWithExperts(both) => both.run(x, h, pass),
            FeedForward::ChannelMix(mix) => mix.run(index, h, pass),
        }
    }
}
