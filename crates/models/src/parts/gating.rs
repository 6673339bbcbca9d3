//! Gating of mixtures of experts by the size of a model.

use gguf_runtime::graphs::{Gating, Size, Spec};

/// Sigmoids in a model of the size of GLM 4.7 Flash (47 layers, or 48 with multi-token prediction, and 154,880 tokens), whose first
/// files do not state the function; the softmax in others.
///
/// Source: `llama_model::load_hparams` (`LLM_ARCH_DEEPSEEK2`) of llama.cpp.
pub fn sigmoid_by_size(size: Size, spec: Spec) -> Spec {
    match (size.n_layer, size.n_vocab) {
        (47 | 48, 154_880) => Spec { gating: Gating::Sigmoid, ..spec },
        _ => spec,
    }
}
