//! What sets one family of decoders apart from another, as data.

use crate::ops::{Activation, NormKind, RopeKind};

/// A family of decoders, or of encoders, whose layers see what follows where the file says so.
///
/// What a file's tensors show by being there needs no field: biases, norms of queries and keys,
/// norms behind attention and feed-forward parts, before or after these are added, one norm for both parts in parallel, fused
/// projections, gates, experts, shared experts, learned positions, a norm of the embedding, factors of
/// rotary positions, an output matrix of its own.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Spec {
    /// The kind of every norm.
    pub norm: NormKind,
    /// Whether layers and the output are normalized although no weights say so.
    pub plain_norms: bool,
    /// Whether queries and keys are normalized over all heads together, not each head by itself.
    pub wide_head_norms: bool,
    /// The name of the norm before the feed-forward part.
    pub mlp_norm: &'static str,
    /// Whether the norm of the output is stored under the name of one of the embedding.
    pub early_norm_name: bool,
    /// Whether a fused projection holds query, key and value of one head after the other.
    pub fused_by_head: bool,
    /// How positions turn queries and keys; none where they do not.
    pub rope: Option<RopeKind>,
    /// In which layers they do.
    pub rope_layers: RopeLayers,
    /// Whether stretching by YaRN passes from one frequency to another at whole ones.
    pub whole_ramp: bool,
    /// Whether queries and keys are normalized, without weights, after they were turned.
    pub turned_norms: bool,
    /// How queries grow with their position in layers where it does not turn them.
    pub temperature: Option<Temperature>,
    /// What is added by distance.
    pub alibi: Alibi,
    /// Which layers look back over a window only.
    pub sliding: Option<Sliding>,
    /// The number of layers of the model whose products of query and key are scaled by the width of
    /// the embedding over the number of heads.
    pub scale_by_embedding: Option<usize>,
    /// Caps of attention and of logits where no key says otherwise; 0 for none.
    pub soft_caps: (f32, f32),
    /// Between the halves of a feed-forward part.
    pub activation: Activation,
    /// How logits of the router become weights, where no key says so.
    pub gating: Gating,
    /// Whether the weights of the chosen experts are made to sum to one, where no key says so.
    pub renormalize: bool,
    /// Whether what goes into an expert is weighed, not what comes out.
    pub weigh_input: bool,
    /// Whether rows become predictions of tokens; those of encoders are what is wanted.
    pub predicts: bool,
    /// What the embedding is multiplied with.
    pub embedding_scale: EmbeddingScale,
    /// What the key `logit_scale` means.
    pub logit_scale: LogitScale,
}

/// In which layers positions turn queries and keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RopeLayers {
    All,
    /// In those with a window, where there are any.
    Sliding,
    /// In all but every so-manieth.
    AllBut(usize),
}

/// What is added to products of query and key by distance.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Alibi {
    None,
    /// With the largest slope's exponent.
    Always(f32),
    /// With what the key `attention.max_alibi_bias` says.
    Key,
    /// Instead of rotary positions, in a model of so many layers.
    OfLayers(usize, f32),
}

/// Which layers look back over a window only, and how positions turn there.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Sliding {
    /// The window where no key says so; without either there is none.
    pub window: Option<usize>,
    /// Of so many layers the last sees everything, where no key says so.
    pub period: usize,
    /// Whether it is the first instead.
    pub full_first: bool,
    /// Only a model of so many layers has windows.
    pub only_of_layers: Option<usize>,
    /// The base of the frequencies there, where no key says so: that of the others, or 10000.
    pub same_base: bool,
    /// Whether positions are stretched there as in the others.
    pub same_scaling: bool,
    /// Whether positions come in chunks as long as the window, and nothing before its own is seen.
    pub chunked: bool,
}

impl Sliding {
    const EVERY: Sliding = Sliding {
        window: None,
        period: 4,
        full_first: false,
        only_of_layers: None,
        same_base: true,
        same_scaling: true,
        chunked: false,
    };
}

/// How logits of a router become weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gating {
    Softmax,
    Sigmoid,
    /// The softmax of the chosen ones alone.
    SoftmaxOfChosen,
    /// By sigmoids where a bias chooses, as in DeepSeek 3, else by softmax, as in DeepSeek 2: in the spelling of
    /// transformers 5 a config says neither, and the reference then writes nothing and reads softmax.
    ByBias,
    /// Each chosen one by the softmax over those that are left and nearly as large.
    SparseMixer,
}

/// How queries grow with their position: by `1 + scale * ln(1 + floor((position + offset) / length))`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Temperature {
    pub scale: f32,
    pub length: f32,
    pub offset: f32,
}

/// What the embedding is multiplied with.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum EmbeddingScale {
    /// What the key `embedding_scale` says, or this.
    Key(f32),
    /// The root of the embedding's width.
    Root,
}

/// What the key `logit_scale` means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogitScale {
    Multiply,
    Divide,
}

impl Spec {
    /// Llama, which most others differ from in a line or two.
    pub const LLAMA: Spec = Spec {
        norm: NormKind::Rms,
        plain_norms: false,
        wide_head_norms: false,
        mlp_norm: "ffn_norm",
        early_norm_name: false,
        fused_by_head: false,
        rope: Some(RopeKind::Normal),
        rope_layers: RopeLayers::All,
        whole_ramp: true,
        turned_norms: false,
        temperature: None,
        alibi: Alibi::None,
        sliding: None,
        scale_by_embedding: None,
        soft_caps: (0.0, 0.0),
        activation: Activation::Silu,
        gating: Gating::Softmax,
        renormalize: true,
        weigh_input: false,
        predicts: true,
        embedding_scale: EmbeddingScale::Key(1.0),
        logit_scale: LogitScale::Multiply,
    };
    /// Llama with the halves of a head turned together.
    pub const NEOX: Spec = Spec { rope: Some(RopeKind::Neox), ..Spec::LLAMA };
    pub const QWEN2_MOE: Spec = Spec { renormalize: false, ..Spec::NEOX };
    pub const GEMMA: Spec =
        Spec { activation: Activation::GeluTanh, embedding_scale: EmbeddingScale::Root, ..Spec::NEOX };
    pub const GEMMA2: Spec = Spec {
        sliding: Some(Sliding { window: Some(4096), period: 2, ..Sliding::EVERY }),
        scale_by_embedding: Some(46),
        soft_caps: (50.0, 30.0),
        ..Spec::GEMMA
    };
    pub const GEMMA3: Spec = Spec {
        sliding: Some(Sliding { period: 6, same_base: false, same_scaling: false, ..Sliding::EVERY }),
        scale_by_embedding: Some(62),
        ..Spec::GEMMA
    };
    pub const PHI2: Spec = Spec { norm: NormKind::Layer, activation: Activation::GeluTanh, ..Spec::NEOX };
    pub const OLMO: Spec = Spec { norm: NormKind::Layer, plain_norms: true, ..Spec::LLAMA };
    pub const OLMO2: Spec = Spec {
        wide_head_norms: true,
        sliding: Some(Sliding { same_scaling: false, ..Sliding::EVERY }),
        ..Spec::NEOX
    };
    pub const OLMOE: Spec = Spec { wide_head_norms: true, renormalize: false, ..Spec::NEOX };
    pub const GRANITE: Spec = Spec { logit_scale: LogitScale::Divide, ..Spec::LLAMA };
    pub const MINICPM: Spec = Spec { embedding_scale: EmbeddingScale::Key(12.0), ..Spec::GRANITE };
    pub const STABLELM: Spec = Spec { norm: NormKind::Layer, ..Spec::NEOX };
    pub const STARCODER2: Spec = Spec { activation: Activation::GeluTanh, ..Spec::STABLELM };
    pub const COMMAND_R: Spec = Spec { norm: NormKind::Layer, ..Spec::LLAMA };
    pub const COHERE2: Spec =
        Spec { rope_layers: RopeLayers::Sliding, sliding: Some(Sliding::EVERY), ..Spec::COMMAND_R };
    pub const EXAONE4: Spec = Spec {
        rope_layers: RopeLayers::Sliding,
        sliding: Some(Sliding { window: Some(4096), only_of_layers: Some(64), ..Sliding::EVERY }),
        ..Spec::NEOX
    };
    pub const NEMOTRON: Spec = Spec { activation: Activation::ReluSquared, ..Spec::STABLELM };
    pub const PERSIMMON: Spec = Spec { fused_by_head: true, ..Spec::NEMOTRON };
    pub const SMOLLM3: Spec = Spec { rope_layers: RopeLayers::AllBut(4), ..Spec::LLAMA };
    pub const ARCEE: Spec = Spec { activation: Activation::ReluSquared, ..Spec::LLAMA };
    pub const BAICHUAN: Spec = Spec { alibi: Alibi::OfLayers(40, 8.0), ..Spec::LLAMA };
    pub const SEED_OSS: Spec = Spec { mlp_norm: "post_attention_norm", ..Spec::NEOX };
    pub const JAMBA: Spec = Spec { rope: None, renormalize: false, ..Spec::LLAMA };
    pub const LFM2: Spec = Spec { early_norm_name: true, ..Spec::NEOX };
    pub const RWKV: Spec = Spec { norm: NormKind::Layer, ..Spec::LLAMA };
    pub const GPT2: Spec =
        Spec { norm: NormKind::Layer, rope: None, activation: Activation::GeluTanh, ..Spec::LLAMA };
    pub const GPT_NEOX: Spec = Spec { activation: Activation::GeluErf, ..Spec::STABLELM };
    pub const BLOOM: Spec = Spec { alibi: Alibi::Always(8.0), ..Spec::GPT2 };
    pub const MPT: Spec =
        Spec { alibi: Alibi::Key, wide_head_norms: true, activation: Activation::GeluErf, ..Spec::GPT2 };
    pub const BERT: Spec = Spec {
        norm: NormKind::Layer,
        rope: None,
        activation: Activation::GeluErf,
        predicts: false,
        ..Spec::LLAMA
    };
    pub const NOMIC_BERT: Spec =
        Spec { rope: Some(RopeKind::Neox), activation: Activation::Silu, ..Spec::BERT };
    pub const JINA_BERT_V2: Spec = Spec { alibi: Alibi::Always(8.0), wide_head_norms: true, ..Spec::BERT };
    pub const MODERN_BERT: Spec = Spec {
        rope: Some(RopeKind::Neox),
        sliding: Some(Sliding { period: 3, full_first: true, ..Sliding::EVERY }),
        ..Spec::BERT
    };
    pub const GPTJ: Spec = Spec { rope: Some(RopeKind::Normal), ..Spec::PHI2 };
    pub const DEEPSEEK: Spec = Spec { renormalize: false, ..Spec::LLAMA };
    pub const DEEPSEEK2: Spec = Spec { gating: Gating::ByBias, ..Spec::DEEPSEEK };
    pub const DOTS1: Spec = Spec { gating: Gating::Sigmoid, ..Spec::QWEN2_MOE };
    pub const GLM4_MOE: Spec = Spec { mlp_norm: "post_attention_norm", ..Spec::DOTS1 };
    pub const MINIMAX_M2: Spec = Spec { wide_head_norms: true, gating: Gating::Sigmoid, ..Spec::NEOX };
    pub const DBRX: Spec = Spec { norm: NormKind::Layer, mlp_norm: "attn_output_norm", ..Spec::NEOX };
    pub const GPT_OSS: Spec = Spec {
        mlp_norm: "post_attention_norm",
        whole_ramp: false,
        sliding: Some(Sliding { period: 2, ..Sliding::EVERY }),
        activation: Activation::ClampedSwish,
        gating: Gating::SoftmaxOfChosen,
        renormalize: false,
        ..Spec::NEOX
    };
    pub const LLAMA4: Spec = Spec {
        rope_layers: RopeLayers::Sliding,
        turned_norms: true,
        temperature: Some(Temperature { scale: 0.1, length: 8192.0, offset: 1.0 }),
        sliding: Some(Sliding { window: Some(8192), chunked: true, ..Sliding::EVERY }),
        gating: Gating::Sigmoid,
        renormalize: false,
        weigh_input: true,
        ..Spec::LLAMA
    };
    /// The reference normalizes by the root of the mean of squares and makes the weights of the two experts
    /// sum to one; the models do neither.
    pub const PHIMOE: Spec =
        Spec { norm: NormKind::Layer, gating: Gating::SparseMixer, renormalize: false, ..Spec::NEOX };
    pub const REFACT: Spec = Spec { rope: None, alibi: Alibi::Always(8.0), ..Spec::LLAMA };
}
