//! Graphs of the models of this family.

use gguf_runtime::graphs::{
    Activation, Architecture, EmbeddingScale, LogitScale, MemorySpec, SoftCaps, Spec,
};

pub const GRAPHS: &[Architecture] = &[Architecture::decoder("grok", GROK)];

/// Defaults of files from before Grok 2 are numbers of Grok 1.
const GROK: Spec = Spec {
    norms_parts: true,
    reads_yarn_range: true,
    soft_caps: SoftCaps { scores: 30.0, logits: 0.0 },
    activation: Activation::GeluTanh,
    // llama.cpp: "flash_attn is not compatible with Grok".
    memory: MemorySpec { keeps_scores: true, ..MemorySpec::USUAL },
    shared_expert: "",
    shared_experts_scale: std::f32::consts::FRAC_1_SQRT_2,
    embedding_scale: EmbeddingScale::Key(78.383_67),
    logit_scale: LogitScale::MultiplyOr(0.577_350_26),
    ..Spec::NEOX
};
