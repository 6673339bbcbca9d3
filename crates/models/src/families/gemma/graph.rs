//! Graphs of the models of this family.

use gguf_runtime::graphs::{
    Activation, Architecture, EmbeddingScale, ScoreScale, SlidingWindow, SoftCaps, Spec,
};

/// Graphs by the value of `general.architecture`.
pub const GRAPHS: &[Architecture] = &[
    Architecture::decoder("gemma", GEMMA),
    Architecture::decoder("gemma-embedding", GEMMA_EMBEDDING),
    Architecture::decoder("gemma2", GEMMA2),
    Architecture::decoder("gemma3", GEMMA3),
    Architecture::decoder("gemma3n", GEMMA4),
    Architecture::decoder("gemma4", GEMMA4),
];

/// Differences of `gemma` from other decoders.
const GEMMA: Spec =
    Spec { activation: Activation::GeluTanh, embedding_scale: EmbeddingScale::SqrtWidth, ..Spec::NEOX };

/// 46 layers are Gemma 2 27B, whose `query_pre_attn_scalar` is `n_embd / n_head`, not the width of a head.
const GEMMA2: Spec = Spec {
    sliding: Some(SlidingWindow { window: Some(4096), period: 2, ..SlidingWindow::EVERY_FOURTH_FULL }),
    score_scale: ScoreScale::EmbeddingWithLayers(46),
    soft_caps: SoftCaps { scores: 50.0, logits: 30.0 },
    ..GEMMA
};

/// 62 layers are Gemma 3 27B, with the same exception. Of six layers one sees everything; the others have RoPE of base
/// 10000 without scaling.
const GEMMA3: Spec = Spec {
    sliding: Some(SlidingWindow {
        period: 6,
        same_base: false,
        same_scaling: false,
        ..SlidingWindow::EVERY_FOURTH_FULL
    }),
    score_scale: ScoreScale::EmbeddingWithLayers(62),
    ..GEMMA
};

/// Sliding layers have their own head width, and rotate all elements; in the others the divisors of
/// `rope_freqs` exclude some.
const GEMMA4: Spec = Spec { score_scale: ScoreScale::One, value_norm: true, ..GEMMA3 };

/// Its windows count both directions.
const GEMMA_EMBEDDING: Spec = Spec { has_lm_head: false, is_causal: false, ..GEMMA3 };
