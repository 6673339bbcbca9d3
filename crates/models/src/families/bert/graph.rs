//! Graphs of the models of this family.

use gguf_runtime::graphs::{
    Activation, Alibi, Architecture, ClassifierSpec, MemorySpec, NormKind, RopeKind, SlidingWindow, Spec,
};

pub const GRAPHS: &[Architecture] = &[
    Architecture::decoder("bert", BERT),
    Architecture::decoder(
        "eurobert",
        Spec {
            has_lm_head: false,
            is_causal: false,
            memory: MemorySpec::NO_CACHE,
            rope: Some(RopeKind::Neox),
            ..Spec::DECODER
        },
    ),
    Architecture::decoder(
        "jina-bert-v2",
        Spec { alibi: Alibi::Always(8.0), qk_norm_over_heads: true, ..BERT },
    ),
    Architecture::decoder("modern-bert", MODERN_BERT),
    Architecture::decoder(
        "neo-bert",
        Spec {
            has_lm_head: false,
            is_causal: false,
            memory: MemorySpec::NO_CACHE,
            output_norm: "enc.output_norm",
            ..Spec::DECODER
        },
    ),
    Architecture::decoder("nomic-bert", NOMIC_BERT),
    Architecture::decoder(
        "nomic-bert-moe",
        Spec { activation: Activation::GeluErf, norm_topk_prob: false, ..NOMIC_BERT },
    ),
];

/// Differences of `bert` from other decoders.
const BERT: Spec = Spec {
    norm: NormKind::Layer,
    rope: None,
    activation: Activation::GeluErf,
    has_lm_head: false,
    memory: MemorySpec::NO_CACHE,
    ..Spec::DECODER
};

/// Differences of `nomic-bert` from other decoders.
const NOMIC_BERT: Spec = Spec { rope: Some(RopeKind::Neox), activation: Activation::Silu, ..BERT };

/// The first of every three layers has full attention (`global_attn_every_n_layers`).
const MODERN_BERT: Spec = Spec {
    classifier: ClassifierSpec {
        activation: Activation::GeluErf,
        mean_by_default: true,
        ..ClassifierSpec::USUAL
    },
    rope: Some(RopeKind::Neox),
    sliding: Some(SlidingWindow { period: 3, full_first: true, ..SlidingWindow::EVERY_FOURTH_FULL }),
    ..BERT
};
