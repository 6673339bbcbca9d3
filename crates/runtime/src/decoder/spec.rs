//! Differences between families of decoders, as data.

use crate::{
    classifier::ClassifierSpec,
    ops::{Activation, NormKind, RopeKind},
};

/// A family of decoders, or of encoders, whose layers also see later tokens if a key of the file requests it.
///
/// Properties that the presence of tensors shows need no field: biases, norms of queries and keys, norms
/// after attention and feed-forward parts, one norm for both parts in parallel, fused projections, gates,
/// experts, shared experts, learned positions, a norm of the embedding, divisors of RoPE frequencies, a
/// separate output matrix.
#[derive(Debug, Clone, Copy)]
pub struct Spec {
    /// The kind of every norm.
    pub norm: NormKind,
    /// True if an epsilon stated only for LayerNorm applies to RMS norms.
    pub takes_other_epsilon: bool,
    /// Epsilon of RMS norms in a graph that reads no key for it.
    pub epsilon: Option<f32>,
    /// True if the presence of an epsilon key means that every norm is an RMS norm.
    pub norm_is_by_key: bool,
    /// True if layers and the output are normalized without weights.
    pub weightless_norms: bool,
    /// Epsilon of norms after the parts of a layer, if it differs from that of the others.
    pub post_norm_epsilon: Option<f32>,
    /// True if `attn_output_norm` and `layer_output_norm` normalize the output of a part, not the residual
    /// stream.
    pub norms_parts: bool,
    /// True if queries and keys are normalized over all heads together, not per head.
    pub qk_norm_over_heads: bool,
    /// Epsilon of norms of queries and keys that are LayerNorms in a model with other norms.
    pub qk_layer_norm: Option<f32>,
    /// The name of the norm before the feed-forward part.
    pub mlp_norm: &'static str,
    /// The name of the norm of the output.
    pub output_norm: &'static str,
    /// True if the norm of the output is stored as `token_embd_norm`.
    pub output_norm_is_token_embd_norm: bool,
    /// True if a fused projection interleaves query, key and value by head.
    pub qkv_by_head: bool,
    /// Pairs of a head that RoPE rotates; `None` without RoPE.
    pub rope: Option<RopeKind>,
    /// Layers in which RoPE does so.
    pub rope_layers: RopeLayers,
    /// True if pairs that rotate by time, height and width (M-RoPE) are interleaved instead of contiguous.
    pub interleaved_sections: bool,
    /// In layers without a window the first of this many equal parts of a head rotates; in the others all elements.
    pub rope_part_of_full: usize,
    /// True if 0 rotated elements mean the entire head: the key belongs to a kind of attention that the model
    /// does not have.
    pub zero_rotates_all: bool,
    /// True if the graph reads the range over which YaRN blends frequencies. In other graphs, these keys have no effect.
    pub reads_yarn_range: bool,
    /// Use of YaRN's magnitude.
    pub yarn_mscale: YarnMscale,
    /// True if the norms of queries and keys follow RoPE.
    pub qk_norm_after_rope: bool,
    /// True if queries and keys are normalized without weights after RoPE.
    pub post_rope_norm: bool,
    /// Activation of the attention gate, if a layer has a matrix for one.
    pub attention_gate: Activation,
    /// The indexer of sparse attention, if a layer has one.
    pub indexer: IndexerSpec,
    /// Activation of the output gate of a delta net.
    pub delta_gate: Activation,
    /// Scaling of queries by position in layers without RoPE, if no key states it for all layers.
    pub temperature: Option<Temperature>,
    /// Biases by distance.
    pub alibi: Alibi,
    /// Sliding-window layers, and their differences.
    pub sliding: Option<SlidingWindow>,
    /// Factor of the scores, if no key states it.
    pub score_scale: ScoreScale,
    /// True if values are normalized without weights. A layer of such a model without a value matrix uses its
    /// keys before norm and RoPE.
    pub value_norm: bool,
    /// Caps, if no key states others.
    pub soft_caps: SoftCaps,
    /// True if a layer has either a mixer or a feed-forward part, according to its counts of heads and
    /// elements.
    pub one_part_layers: bool,
    /// Between the halves of a feed-forward part.
    pub activation: Activation,
    /// True if a bound of [`Spec::activation`] limits its argument, not its result.
    pub bounds_argument: bool,
    /// Function from router logits to weights, if no key states it.
    pub gating: Gating,
    /// True if the weights of the chosen experts are normalized to sum to one, if no key states it.
    pub norm_topk_prob: bool,
    /// True if the input of an expert is multiplied with its weight, not the output.
    pub scale_expert_input: bool,
    /// Ending of the tensors of the shared expert.
    pub shared_expert: &'static str,
    /// True if the router, or all of a mixture with a separate norm, reads the residual stream from before
    /// attention.
    pub routes_before_attention: bool,
    /// Factor of the sum of chosen experts and shared expert.
    pub shared_experts_scale: f32,
    /// True if rows become predictions of tokens; for encoders the rows are the result.
    pub has_lm_head: bool,
    /// True if a token sees only earlier tokens, if no key states it.
    pub is_causal: bool,
    /// True if a window limits only earlier tokens: later ones are seen at any distance. Has an effect only without a causal mask.
    pub sees_block: bool,
    /// Factor of the embedding.
    pub embedding_scale: EmbeddingScale,
    /// True if the scaled embedding is normalized without weights.
    pub normalizes_embedding: bool,
    /// True if the per-layer inputs of a file contain embeddings of the tokens, and not only a projection of the scaled embedding.
    pub has_per_layer_table: bool,
    /// True if `layer_output_scale` is the factor of the embedding, which is added after each layer, instead of
    /// a factor of the residual stream.
    pub adds_embedding: bool,
    /// Factor of both parts of a layer before they are added to the residual stream.
    pub residual_scale: ResidualScale,
    /// Meaning of the key `logit_scale`.
    pub logit_scale: LogitScale,
    /// Tokens from the first to before the second that are never predicted.
    pub never_predicted: Option<(usize, usize)>,
    /// True if RWKV's token shift factors are stored for the current token, not for the previous one.
    pub lerp_is_of_current: bool,
    /// Properties of the classifier, if a file has one.
    pub classifier: ClassifierSpec,
    /// Memory that llama.cpp takes.
    pub memory: MemorySpec,
}

/// Differences of llama.cpp's memory from that of other decoders.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MemorySpec {
    /// True without a KV cache: `llama_model::create_memory` lists these architectures.
    pub has_no_cache: bool,
    /// True if flash attention is off, so that the scores of all heads are kept.
    pub keeps_scores: bool,
    /// True if the layers of multi-token prediction have cells in the cache.
    pub caches_prediction: bool,
}

impl MemorySpec {
    /// A KV cache of the layers that run, and flash attention.
    pub const USUAL: MemorySpec =
        MemorySpec { has_no_cache: false, keeps_scores: false, caches_prediction: false };
    /// [`MemorySpec::USUAL`] without a KV cache.
    pub const NO_CACHE: MemorySpec = MemorySpec { has_no_cache: true, ..MemorySpec::USUAL };
}

/// Factor of the products of queries and keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScoreScale {
    /// `1 / sqrt(key_width)`.
    KeyWidth,
    /// `1 / key_width`.
    InverseKeyWidth,
    /// `1 / sqrt(n_embd / n_head)`.
    EmbeddingPerHead,
    /// 1: the norms of queries and keys have taken the scale in.
    One,
}

/// Layers in which RoPE rotates queries and keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RopeLayers {
    /// All.
    All,
    /// Layers with a sliding window; all layers if no layer has one.
    Sliding,
    /// Layers with a sliding window, and the first, dense ones of a mixture of experts.
    SlidingOrDense,
    /// All but every n-th.
    AllButEveryNth(usize),
    /// Layers that `attention.rope_pattern` lists; without it, all unless `rope.scaling.finetuned` is false.
    Stated,
}

/// Use of YaRN's magnitude; see `ops/rope.rs`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum YarnMscale {
    /// Cosines and sines.
    Rotation,
    /// Scores too, in latent attention; see `decoder/rope_scaling.rs`.
    Scores,
}

/// Differences of an indexer from attention in the same layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexerSpec {
    /// Pairs that RoPE rotates, if they are others than in attention.
    pub rope: Option<RopeKind>,
    /// True if the last elements of a head are rotated, not the first ones.
    pub rotates_end: bool,
    /// True if keys are normalized with the epsilon of other norms, not with 1e-6.
    pub usual_epsilon: bool,
}

/// Biases of scores by distance (ALiBi): `-slope_h * |i - j|`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Alibi {
    /// None.
    None,
    /// With the exponent of the largest slope.
    Always(f32),
    /// With the exponent in `attention.max_alibi_bias`.
    Key,
}

/// Sliding-window layers, and their RoPE.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SlidingWindow {
    /// Positions in the window if no key states them. `None` means that only a key gives a window.
    pub window: Option<usize>,
    /// Period of full-attention layers, if no key lists them.
    pub period: usize,
    /// True if the full-attention layer is the first of its group instead of the last.
    pub full_first: bool,
    /// RoPE base of sliding layers.
    pub base: SlidingBase,
    /// True if RoPE scaling and frequency divisors apply to sliding layers too.
    pub same_scaling: bool,
    /// True if positions are divided into chunks as long as the window, and nothing before a query's own
    /// chunk is visible.
    pub chunked: bool,
}

/// RoPE base of layers with a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlidingBase {
    /// The base of the other layers; `rope.freq_base_swa` has no effect.
    Shared,
    /// `rope.freq_base_swa`, else the base of the other layers.
    StatedOrShared,
    /// `rope.freq_base_swa`, else 10000.
    StatedOrUsual,
}

impl SlidingWindow {
    /// Every fourth layer has full attention, the last of its group.
    pub const EVERY_FOURTH_FULL: SlidingWindow = SlidingWindow {
        window: None,
        period: 4,
        full_first: false,
        base: SlidingBase::StatedOrShared,
        same_scaling: true,
        chunked: false,
    };
}

/// Bounds `c` of `c * tanh(x / c)`; 0 for no limit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SoftCaps {
    /// Bound of attention scores.
    pub scores: f32,
    /// Bound of logits.
    pub logits: f32,
}

/// Function from router logits to weights of experts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gating {
    /// The softmax over all experts.
    Softmax,
    /// A sigmoid for each expert.
    Sigmoid,
    /// The softmax of only the chosen ones.
    SoftmaxOfTopK,
    /// `sqrt(ln(1 + exp(x)))` for each expert.
    SqrtSoftplus,
}

/// Factor of queries at position `p`: `1 + scale * ln(1 + floor((p + offset) / length))`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Temperature {
    /// Factor of the logarithm.
    pub scale: f32,
    /// Positions of a step.
    pub length: f32,
    /// Added to the position.
    pub offset: f32,
}

/// Factor of the embedding.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum EmbeddingScale {
    /// Value of the key `embedding_scale`, or this default.
    Key(f32),
    /// `sqrt(n_embd)`.
    SqrtWidth,
}

/// Factor of the parts of a layer, if the key `residual_scale` is missing.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ResidualScale {
    /// 1.
    One,
    /// This over `sqrt(n_layer)`.
    OverSqrtLayers(f32),
}

/// Meaning of the key `logit_scale`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum LogitScale {
    /// A factor of logits.
    Multiply,
    /// Like this, with a factor if the key is missing.
    MultiplyOr(f32),
    /// A divisor of logits.
    Divide,
    /// A factor of logits; without the key it is this over `n_embd`.
    OverWidth(f32),
}

impl Spec {
    /// The usual decoder, Llama; most others differ from it in a line or two.
    pub const DECODER: Spec = Spec {
        norm: NormKind::Rms,
        takes_other_epsilon: false,
        epsilon: None,
        norm_is_by_key: false,
        weightless_norms: false,
        post_norm_epsilon: None,
        norms_parts: false,
        qk_norm_over_heads: false,
        qk_layer_norm: None,
        mlp_norm: "ffn_norm",
        output_norm: "output_norm",
        output_norm_is_token_embd_norm: false,
        qkv_by_head: false,
        rope: Some(RopeKind::Normal),
        rope_layers: RopeLayers::All,
        interleaved_sections: false,
        rope_part_of_full: 1,
        zero_rotates_all: false,
        reads_yarn_range: false,
        yarn_mscale: YarnMscale::Rotation,
        qk_norm_after_rope: false,
        post_rope_norm: false,
        attention_gate: Activation::Sigmoid,
        delta_gate: Activation::Silu,
        indexer: IndexerSpec { rope: None, rotates_end: false, usual_epsilon: false },
        temperature: None,
        alibi: Alibi::None,
        sliding: None,
        score_scale: ScoreScale::KeyWidth,
        value_norm: false,
        soft_caps: SoftCaps { scores: 0.0, logits: 0.0 },
        one_part_layers: false,
        activation: Activation::Silu,
        bounds_argument: false,
        gating: Gating::Softmax,
        norm_topk_prob: true,
        scale_expert_input: false,
        shared_expert: "_shexp",
        routes_before_attention: false,
        shared_experts_scale: 1.0,
        has_lm_head: true,
        is_causal: true,
        sees_block: false,
        embedding_scale: EmbeddingScale::Key(1.0),
        normalizes_embedding: false,
        has_per_layer_table: true,
        adds_embedding: false,
        residual_scale: ResidualScale::One,
        logit_scale: LogitScale::Multiply,
        never_predicted: None,
        lerp_is_of_current: false,
        classifier: ClassifierSpec::USUAL,
        memory: MemorySpec::USUAL,
    };
    /// [`Spec::DECODER`] with RoPE on the halves of a head.
    pub const NEOX: Spec = Spec { rope: Some(RopeKind::Neox), ..Spec::DECODER };
}
