//! Graphs of the models of this family: embeddings times `sqrt(n_embd)`, RoPE on the halves of a head (`NEOX`), and
//! a gated feed-forward part with GELU. `runtime/src/decoder/spec.rs` describes the fields,
//! `runtime/src/decoder/layer.rs` a layer.

use gguf_runtime::graphs::{
    Activation, Architecture, EmbeddingScale, MemorySpec, ScoreScale, Size, SlidingBase, SlidingWindow,
    SoftCaps, Spec,
};

pub const GRAPHS: &[Architecture] = &[
    Architecture::decoder("gemma", GEMMA),
    Architecture::decoder("gemma-embedding", GEMMA_EMBEDDING).sized(gemma3),
    Architecture::decoder("gemma-embedding2", GEMMA_EMBEDDING2),
    Architecture::decoder("gemma2", GEMMA2).sized(gemma2),
    Architecture::decoder("gemma3", GEMMA3).sized(gemma3),
    Architecture::decoder("gemma3n", GEMMA4),
    Architecture::decoder("gemma4", GEMMA4),
];

/// Differences of `gemma` from other decoders.
const GEMMA: Spec =
    Spec { activation: Activation::GeluTanh, embedding_scale: EmbeddingScale::SqrtWidth, ..Spec::NEOX };

/// Differences of `gemma2` from `gemma`.
const GEMMA2: Spec = Spec {
    sliding: Some(SlidingWindow { window: Some(4096), period: 2, ..SlidingWindow::EVERY_FOURTH_FULL }),
    soft_caps: SoftCaps { scores: 50.0, logits: 30.0 },
    ..GEMMA
};

/// All norms are RMS norms: `x += n2 A(n1 x); x += n4 F(n3 x)`, and one for each head of queries and keys before RoPE;
/// tensors show this, so no field says it. The last of six layers uses full attention. The others see the nearest
/// `attention.sliding_window` positions, and their RoPE has base `rope.freq_base_swa` (10000 without it), unscaled.
const GEMMA3: Spec = Spec {
    sliding: Some(SlidingWindow {
        period: 6,
        base: SlidingBase::StatedOrUsual,
        same_scaling: false,
        ..SlidingWindow::EVERY_FOURTH_FULL
    }),
    ..GEMMA
};

/// 46 layers are Gemma 2 27B, whose `query_pre_attn_scalar` is `n_embd / n_head`, not the width of a head.
fn gemma2(size: Size, spec: Spec) -> Spec {
    if size.n_layer == 46 { Spec { score_scale: ScoreScale::EmbeddingPerHead, ..spec } } else { spec }
}

/// 62 layers are Gemma 3 27B, with the scale of Gemma 2 27B.
fn gemma3(size: Size, spec: Spec) -> Spec {
    if size.n_layer == 62 { Spec { score_scale: ScoreScale::EmbeddingPerHead, ..spec } } else { spec }
}

/// Sliding layers have their own head width, and rotate all elements; in the others the divisors of
/// `rope_freqs` exclude some.
const GEMMA4: Spec = Spec { score_scale: ScoreScale::One, value_norm: true, ..GEMMA3 };

/// Its windows count both directions.
const GEMMA_EMBEDDING: Spec =
    Spec { has_lm_head: false, is_causal: false, memory: MemorySpec::NO_CACHE, ..GEMMA3 };

/// Attention of Gemma 4 in both directions. The inputs of the layers come from the embedding.
const GEMMA_EMBEDDING2: Spec =
    Spec { score_scale: ScoreScale::One, value_norm: true, has_per_layer_table: false, ..GEMMA_EMBEDDING };
