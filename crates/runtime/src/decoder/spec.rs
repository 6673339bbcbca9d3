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
pub(crate) struct Spec {
    /// The kind of every norm.
    pub norm: NormKind,
    /// True if an epsilon stated for LayerNorm alone applies to RMS norms.
    pub takes_other_epsilon: bool,
    /// True if the presence of an epsilon key means that every norm is an RMS norm.
    pub norm_is_by_key: bool,
    /// True if layers and the output are normalized without weights.
    pub weightless_norms: bool,
    /// True if queries and keys are normalized over all heads together, not per head.
    pub qk_norm_over_heads: bool,
    /// The name of the norm before the feed-forward part.
    pub mlp_norm: &'static str,
    /// True if the norm of the output is stored as `token_embd_norm`.
    pub output_norm_is_token_embd_norm: bool,
    /// True if a fused projection interleaves query, key and value by head.
    pub qkv_by_head: bool,
    /// Pairs of a head that RoPE rotates; `None` without RoPE.
    pub rope: Option<RopeKind>,
    /// In which layers it does.
    pub rope_layers: RopeLayers,
    /// True if pairs that rotate by time, height and width (M-RoPE) are interleaved instead of contiguous.
    pub interleaved_sections: bool,
    /// In layers without a window the first of so many equal parts of a head rotates; in the others all of it.
    pub rope_part_of_full: usize,
    /// True if 0 rotated elements mean the whole head: the key belongs to a kind of attention that the model
    /// does not have.
    pub zero_rotates_all: bool,
    /// True if the graph reads the range over which YaRN blends frequencies. In other graphs, these keys have no effect.
    pub reads_yarn_range: bool,
    /// Use of YaRN's magnitude.
    pub yarn_mscale: YarnMscale,
    /// True if the norms of queries and keys follow RoPE.
    pub qk_norm_after_rope: bool,
    /// Weightless norm of queries and keys after RoPE.
    pub post_rope_norm: Option<PostRopeNorm>,
    /// Activation of the attention gate, if a layer has a matrix for one.
    pub attention_gate: Activation,
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
    /// Caps where no key says otherwise.
    pub soft_caps: SoftCaps,
    /// True if a layer has either a mixer or a feed-forward part, according to its counts of heads and
    /// elements.
    pub one_part_layers: bool,
    /// Between the halves of a feed-forward part.
    pub activation: Activation,
    /// Function from router logits to weights, if no key states it.
    pub gating: Gating,
    /// True if the weights of the chosen experts are normalized to sum to one, if no key states it.
    pub norm_topk_prob: bool,
    /// True if the input of an expert is multiplied with its weight, not the output.
    pub scale_expert_input: bool,
    /// Factor of the sum of chosen experts and shared expert.
    pub shared_experts_scale: f32,
    /// True if rows become predictions of tokens; for encoders the rows are the result.
    pub has_lm_head: bool,
    /// True if a token sees only earlier tokens, if no key states it.
    pub is_causal: bool,
    /// Factor of the embedding.
    pub embedding_scale: EmbeddingScale,
    /// Factor of both parts of a layer before they are added to the residual stream.
    pub residual_scale: ResidualScale,
    /// Meaning of the key `logit_scale`.
    pub logit_scale: LogitScale,
    /// True if RWKV's token shift factors are stored for the current token, not for the previous one.
    pub lerp_is_of_current: bool,
    /// Properties of the classifier, if a file has one.
    pub classifier: ClassifierSpec,
}

/// Factor of the products of queries and keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ScoreScale {
    /// `1 / sqrt(key_width)`.
    KeyWidth,
    /// `1 / sqrt(n_embd / n_head)` in a model of so many layers; in all others as before.
    EmbeddingWithLayers(usize),
    /// 1: the norms of queries and keys have taken the scale in.
    One,
}

/// In which layers RoPE rotates queries and keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RopeLayers {
    All,
    /// In those with a sliding window; in all where no layer has one.
    Sliding,
    /// In those, and in the first, dense ones of a mixture of experts.
    SlidingOrDense,
    /// In all but every n-th.
    AllButEveryNth(usize),
    /// In those that `attention.rope_pattern` lists; without it in all, unless `rope.scaling.finetuned` is false.
    Stated,
}

/// Use of YaRN's magnitude; see [`RopeScaling`](crate::ops::RopeScaling).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum YarnMscale {
    /// Cosines and sines.
    Rotation,
    /// Scores alone, where the file states `yarn_log_multiplier`: DeepSeek 2 and 3 have the same multiplier for both,
    /// so that what would be left for the rotation is a quotient of 1.
    Scores,
}

/// Norms of queries and keys after the rotation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PostRopeNorm {
    /// A model of so many experts has none.
    pub not_with_experts: usize,
}

/// Biases of scores by distance (ALiBi): `-slope_h * |i - j|`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Alibi {
    None,
    /// With the exponent of the largest slope.
    Always(f32),
    /// With what the key `attention.max_alibi_bias` says.
    Key,
    /// Instead of RoPE, in a model of so many layers.
    OfLayers(usize, f32),
}

/// Sliding-window layers, and their RoPE.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct SlidingWindow {
    /// Positions in the window if no key states it; without either there is no window.
    pub window: Option<usize>,
    /// Period of full-attention layers, if no key lists them.
    pub period: usize,
    /// True if the full-attention layer is the first of its group instead of the last.
    pub full_first: bool,
    /// Only a model of so many layers has windows.
    pub only_with_layers: Option<usize>,
    /// True if sliding layers have the RoPE base of the other layers, if no key states it; 10000 otherwise.
    pub same_base: bool,
    /// True if RoPE scaling and frequency divisors apply to sliding layers too.
    pub same_scaling: bool,
    /// True if positions are divided into chunks as long as the window, and nothing before a query's own
    /// chunk is visible.
    pub chunked: bool,
}

impl SlidingWindow {
    const EVERY_FOURTH_FULL: SlidingWindow = SlidingWindow {
        window: None,
        period: 4,
        full_first: false,
        only_with_layers: None,
        same_base: true,
        same_scaling: true,
        chunked: false,
    };
}

/// Bounds `c` of `c * tanh(x / c)`; 0 for none.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct SoftCaps {
    pub scores: f32,
    pub logits: f32,
}

/// Function from router logits to weights of experts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gating {
    Softmax,
    Sigmoid,
    /// The softmax of the chosen ones alone.
    SoftmaxOfTopK,
    /// By sigmoids where a bias chooses, as in DeepSeek 3, else by softmax, as in DeepSeek 2: in the spelling of
    /// transformers 5 a config says neither, and the reference then writes nothing and reads softmax.
    ByBias,
    /// Each chosen one by the softmax over those that are left and nearly as large.
    SparseMixer,
}

/// Factor of queries at position `p`: `1 + scale * ln(1 + floor((p + offset) / length))`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Temperature {
    pub scale: f32,
    pub length: f32,
    pub offset: f32,
}

/// Factor of the embedding.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum EmbeddingScale {
    /// Value of the key `embedding_scale`, or this default.
    Key(f32),
    /// `sqrt(n_embd)`.
    SqrtWidth,
}

/// Factor of the parts of a layer, if the key `residual_scale` is missing.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum ResidualScale {
    One,
    /// This over `sqrt(n_layer)`.
    OverSqrtLayers(f32),
}

/// Meaning of the key `logit_scale`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogitScale {
    Multiply,
    Divide,
}

impl Spec {
    /// Llama, which most others differ from in a line or two.
    pub const LLAMA: Spec = Spec {
        norm: NormKind::Rms,
        takes_other_epsilon: false,
        norm_is_by_key: false,
        weightless_norms: false,
        qk_norm_over_heads: false,
        mlp_norm: "ffn_norm",
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
        post_rope_norm: None,
        attention_gate: Activation::Sigmoid,
        temperature: None,
        alibi: Alibi::None,
        sliding: None,
        score_scale: ScoreScale::KeyWidth,
        value_norm: false,
        soft_caps: SoftCaps { scores: 0.0, logits: 0.0 },
        one_part_layers: false,
        activation: Activation::Silu,
        gating: Gating::Softmax,
        norm_topk_prob: true,
        scale_expert_input: false,
        shared_experts_scale: 1.0,
        has_lm_head: true,
        is_causal: true,
        embedding_scale: EmbeddingScale::Key(1.0),
        residual_scale: ResidualScale::One,
        logit_scale: LogitScale::Multiply,
        lerp_is_of_current: false,
        classifier: ClassifierSpec::BERT,
    };
    /// Llama with RoPE on the halves of a head.
    pub const NEOX: Spec = Spec { rope: Some(RopeKind::Neox), ..Spec::LLAMA };
    /// Sections are those of Qwen 3 VL; text-only models have none.
    pub const QWEN3: Spec =
        Spec { classifier: ClassifierSpec::QWEN3, interleaved_sections: true, ..Spec::NEOX };
    pub const QWEN3_VL_MOE: Spec = Spec { interleaved_sections: true, ..Spec::NEOX };
    pub const QWEN2_MOE: Spec = Spec { norm_topk_prob: false, ..Spec::NEOX };
    pub const GEMMA: Spec =
        Spec { activation: Activation::GeluTanh, embedding_scale: EmbeddingScale::SqrtWidth, ..Spec::NEOX };
    /// 46 layers are Gemma 2 27B, whose `query_pre_attn_scalar` is `n_embd / n_head`, not the width of a head.
    pub const GEMMA2: Spec = Spec {
        sliding: Some(SlidingWindow { window: Some(4096), period: 2, ..SlidingWindow::EVERY_FOURTH_FULL }),
        score_scale: ScoreScale::EmbeddingWithLayers(46),
        soft_caps: SoftCaps { scores: 50.0, logits: 30.0 },
        ..Spec::GEMMA
    };
    /// 62 layers are Gemma 3 27B, with the same exception. Of six layers one sees everything; the others have RoPE of base
    /// 10000 without scaling.
    pub const GEMMA3: Spec = Spec {
        sliding: Some(SlidingWindow {
            period: 6,
            same_base: false,
            same_scaling: false,
            ..SlidingWindow::EVERY_FOURTH_FULL
        }),
        score_scale: ScoreScale::EmbeddingWithLayers(62),
        ..Spec::GEMMA
    };
    /// Sliding layers have their own head width, and rotate all elements; in the others the divisors of
    /// `rope_freqs` exclude some.
    pub const GEMMA4: Spec = Spec { score_scale: ScoreScale::One, value_norm: true, ..Spec::GEMMA3 };
    /// Its windows count both directions.
    pub const GEMMA_EMBEDDING: Spec = Spec { has_lm_head: false, is_causal: false, ..Spec::GEMMA3 };
    pub const PHI2: Spec = Spec { norm: NormKind::Layer, activation: Activation::GeluTanh, ..Spec::NEOX };
    /// Layer norms without weights.
    pub const OLMO: Spec = Spec { norm: NormKind::Layer, weightless_norms: true, ..Spec::LLAMA };
    /// OLMo 2 has no windows; OLMo 3, written under the same name, has, with RoPE unscaled there.
    pub const OLMO2: Spec = Spec {
        qk_norm_over_heads: true,
        sliding: Some(SlidingWindow { same_scaling: false, ..SlidingWindow::EVERY_FOURTH_FULL }),
        ..Spec::NEOX
    };
    pub const OLMOE: Spec = Spec { qk_norm_over_heads: true, norm_topk_prob: false, ..Spec::NEOX };
    /// Granite 4 has models without positions.
    pub const GRANITE: Spec =
        Spec { logit_scale: LogitScale::Divide, rope_layers: RopeLayers::Stated, ..Spec::LLAMA };
    pub const GRANITE_SWA: Spec = Spec { sliding: Some(SlidingWindow::EVERY_FOURTH_FULL), ..Spec::GRANITE };
    /// Defaults of older files: `scale_emb` 12 and `scale_depth` 1.4 of MiniCPM 2B.
    pub const MINICPM: Spec = Spec {
        embedding_scale: EmbeddingScale::Key(12.0),
        residual_scale: ResidualScale::OverSqrtLayers(1.4),
        rope_layers: RopeLayers::All,
        ..Spec::GRANITE
    };
    pub const STABLELM: Spec = Spec { norm: NormKind::Layer, ..Spec::NEOX };
    pub const STARCODER2: Spec = Spec { activation: Activation::GeluTanh, ..Spec::STABLELM };
    pub const COMMAND_R: Spec = Spec { norm: NormKind::Layer, ..Spec::LLAMA };
    /// RoPE in the layers with a window alone; those that see everything have no positions.
    pub const COHERE2: Spec = Spec {
        rope_layers: RopeLayers::Sliding,
        sliding: Some(SlidingWindow::EVERY_FOURTH_FULL),
        ..Spec::COMMAND_R
    };
    /// 64 layers are EXAONE 4.0 32B; the 1.2B, of 30 layers, has no windows.
    pub const EXAONE4: Spec = Spec {
        rope_layers: RopeLayers::Sliding,
        sliding: Some(SlidingWindow {
            window: Some(4096),
            only_with_layers: Some(64),
            ..SlidingWindow::EVERY_FOURTH_FULL
        }),
        ..Spec::NEOX
    };
    pub const EXAONE_MOE: Spec = Spec {
        rope_layers: RopeLayers::Sliding,
        sliding: Some(SlidingWindow { window: Some(128), ..SlidingWindow::EVERY_FOURTH_FULL }),
        ..Spec::DOTS1
    };
    pub const NEMOTRON: Spec = Spec { activation: Activation::ReluSquared, ..Spec::STABLELM };
    pub const NEMOTRON_H: Spec = Spec {
        takes_other_epsilon: true,
        rope: None,
        one_part_layers: true,
        activation: Activation::ReluSquared,
        gating: Gating::Sigmoid,
        ..Spec::LLAMA
    };
    pub const PERSIMMON: Spec = Spec { qkv_by_head: true, ..Spec::NEMOTRON };
    /// `no_rope_layer_interval` of SmolLM3 3B is 4.
    pub const SMOLLM3: Spec = Spec { rope_layers: RopeLayers::AllButEveryNth(4), ..Spec::LLAMA };
    pub const ARCEE: Spec = Spec { activation: Activation::ReluSquared, ..Spec::LLAMA };
    /// 40 layers are Baichuan 13B, with ALiBi; the 7B, of 32, has RoPE.
    pub const BAICHUAN: Spec = Spec { alibi: Alibi::OfLayers(40, 8.0), ..Spec::LLAMA };
    pub const SEED_OSS: Spec = Spec { mlp_norm: "post_attention_norm", ..Spec::NEOX };
    pub const QWEN35: Spec = Spec { interleaved_sections: true, ..Spec::SEED_OSS };
    pub const JAMBA: Spec = Spec { rope: None, norm_topk_prob: false, ..Spec::LLAMA };
    pub const LFM2: Spec = Spec { output_norm_is_token_embd_norm: true, ..Spec::NEOX };
    pub const LFM2_MOE: Spec = Spec { gating: Gating::Sigmoid, ..Spec::LFM2 };
    pub const HUNYUAN: Spec = Spec { qk_norm_after_rope: true, ..Spec::NEOX };
    pub const MAINCODER: Spec = Spec { qk_norm_after_rope: true, ..Spec::LLAMA };
    pub const MIMO2: Spec = Spec { gating: Gating::Sigmoid, ..Spec::MELLUM };
    pub const MELLUM: Spec = Spec { sliding: Some(SlidingWindow::EVERY_FOURTH_FULL), ..Spec::NEOX };
    pub const RWKV: Spec = Spec { norm: NormKind::Layer, ..Spec::LLAMA };
    /// Its checkpoints hold `time_mix_k` and such as factors of the token itself; RWKV 6 turned that round.
    pub const RWKV4: Spec = Spec { lerp_is_of_current: true, ..Spec::RWKV };
    pub const GPT2: Spec =
        Spec { norm: NormKind::Layer, rope: None, activation: Activation::GeluTanh, ..Spec::LLAMA };
    pub const GPT_NEOX: Spec = Spec { activation: Activation::GeluErf, ..Spec::STABLELM };
    pub const BLOOM: Spec = Spec { alibi: Alibi::Always(8.0), ..Spec::GPT2 };
    pub const MPT: Spec =
        Spec { alibi: Alibi::Key, qk_norm_over_heads: true, activation: Activation::GeluErf, ..Spec::GPT2 };
    pub const BERT: Spec = Spec {
        norm: NormKind::Layer,
        rope: None,
        activation: Activation::GeluErf,
        has_lm_head: false,
        ..Spec::LLAMA
    };
    pub const NOMIC_BERT: Spec =
        Spec { rope: Some(RopeKind::Neox), activation: Activation::Silu, ..Spec::BERT };
    pub const NOMIC_BERT_MOE: Spec =
        Spec { activation: Activation::GeluErf, norm_topk_prob: false, ..Spec::NOMIC_BERT };
    pub const JINA_BERT_V2: Spec = Spec { alibi: Alibi::Always(8.0), qk_norm_over_heads: true, ..Spec::BERT };
    /// The first of every three layers has full attention (`global_attn_every_n_layers`).
    pub const MODERN_BERT: Spec = Spec {
        classifier: ClassifierSpec::MODERN_BERT,
        rope: Some(RopeKind::Neox),
        sliding: Some(SlidingWindow { period: 3, full_first: true, ..SlidingWindow::EVERY_FOURTH_FULL }),
        ..Spec::BERT
    };
    pub const GPTJ: Spec = Spec { rope: Some(RopeKind::Normal), ..Spec::PHI2 };
    pub const DEEPSEEK: Spec = Spec { norm_topk_prob: false, ..Spec::LLAMA };
    pub const DEEPSEEK2: Spec =
        Spec { gating: Gating::ByBias, yarn_mscale: YarnMscale::Scores, ..Spec::DEEPSEEK };
    /// DeepSeek 2 with plain attention.
    pub const DEEPSEEK2_OCR: Spec = Spec { zero_rotates_all: true, norm_topk_prob: false, ..Spec::NEOX };
    pub const DOTS1: Spec = Spec { gating: Gating::Sigmoid, ..Spec::QWEN2_MOE };
    pub const GLM4_MOE: Spec = Spec { mlp_norm: "post_attention_norm", ..Spec::DOTS1 };
    pub const MINIMAX_M2: Spec = Spec { qk_norm_over_heads: true, gating: Gating::Sigmoid, ..Spec::NEOX };
    pub const DBRX: Spec = Spec { norm: NormKind::Layer, mlp_norm: "attn_output_norm", ..Spec::NEOX };
    pub const MISTRAL3: Spec = Spec { reads_yarn_range: true, ..Spec::LLAMA };
    /// Windows in every other layer.
    pub const GPT_OSS: Spec = Spec {
        mlp_norm: "post_attention_norm",
        sliding: Some(SlidingWindow { period: 2, ..SlidingWindow::EVERY_FOURTH_FULL }),
        activation: Activation::ClampedSwish,
        gating: Gating::SoftmaxOfTopK,
        norm_topk_prob: false,
        ..Spec::NEOX
    };
    /// 128 experts are Llama 4 Maverick, whose `use_qk_norm` is false; Scout, of 16, has the norm. Layers without RoPE see
    /// everything and have the temperature (`attn_scale` 0.1, `floor_scale` 8192).
    pub const LLAMA4: Spec = Spec {
        rope_layers: RopeLayers::Sliding,
        post_rope_norm: Some(PostRopeNorm { not_with_experts: 128 }),
        temperature: Some(Temperature { scale: 0.1, length: 8192.0, offset: 1.0 }),
        sliding: Some(SlidingWindow {
            window: Some(8192),
            chunked: true,
            ..SlidingWindow::EVERY_FOURTH_FULL
        }),
        gating: Gating::Sigmoid,
        norm_topk_prob: false,
        scale_expert_input: true,
        ..Spec::LLAMA
    };
    /// The reference normalizes by the root of the mean of squares and makes the weights of the two experts
    /// sum to one; the models do neither.
    pub const PHIMOE: Spec =
        Spec { norm: NormKind::Layer, gating: Gating::SparseMixer, norm_topk_prob: false, ..Spec::NEOX };
    pub const LLAMA_EMBED: Spec = Spec { has_lm_head: false, is_causal: false, ..Spec::LLAMA };
    pub const EUROBERT: Spec = Spec { rope: Some(RopeKind::Neox), ..Spec::LLAMA_EMBED };
    /// One of every four layers has full attention and no RoPE.
    pub const AFMOE: Spec = Spec {
        rope_layers: RopeLayers::Sliding,
        sliding: Some(SlidingWindow::EVERY_FOURTH_FULL),
        gating: Gating::Sigmoid,
        embedding_scale: EmbeddingScale::SqrtWidth,
        ..Spec::NEOX
    };
    /// The first of four layers sees everything; YaRN is for those layers alone.
    pub const LAGUNA: Spec = Spec {
        attention_gate: Activation::Softplus,
        sliding: Some(SlidingWindow {
            full_first: true,
            same_scaling: false,
            ..SlidingWindow::EVERY_FOURTH_FULL
        }),
        gating: Gating::Sigmoid,
        ..Spec::NEOX
    };
    /// Experts and shared expert are averaged, as `shared_expert_combination_strategy` of its config has it.
    pub const COHERE2_MOE: Spec = Spec {
        norm_is_by_key: true,
        rope_layers: RopeLayers::SlidingOrDense,
        sliding: Some(SlidingWindow { full_first: true, ..SlidingWindow::EVERY_FOURTH_FULL }),
        gating: Gating::Sigmoid,
        shared_experts_scale: 0.5,
        ..Spec::COMMAND_R
    };
    pub const STEP35: Spec = Spec {
        rope_part_of_full: 2,
        sliding: Some(SlidingWindow { same_scaling: false, ..SlidingWindow::EVERY_FOURTH_FULL }),
        gating: Gating::Sigmoid,
        ..Spec::NEOX
    };
    pub const REFACT: Spec = Spec { rope: None, alibi: Alibi::Always(8.0), ..Spec::LLAMA };
}
