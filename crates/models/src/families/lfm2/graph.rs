//! Graphs of the models of this family.

use gguf_runtime::graphs::{Architecture, Gating, Spec};

pub const GRAPHS: &[Architecture] = &[
    Architecture::decoder("lfm2", LFM2),
    Architecture::decoder("lfm2moe", Spec { gating: Gating::Sigmoid, ..LFM2 }),
];

/// Differences of `lfm2` from other decoders.
const LFM2: Spec = Spec { output_norm_is_token_embd_norm: true, ..Spec::NEOX };
