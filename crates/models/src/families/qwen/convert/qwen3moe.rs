//! Qwen 3, mixtures of experts.
//!
//! Config keys: those of every text model, the length of the experts.
//!
//! Transforms: experts become one tensor.
//!
//! Source: `Qwen3MoeModel` in `conversion/qwen.py`.

use crate::families::qwen::convert::qwen2moe;
use crate::prelude::*;

pub const QWEN3MOE: Arch = Arch {
    name: "qwen3moe",
    classes: &[Class::new("Qwen3MoeForCausalLM")],
    example: "Qwen/Qwen3-30B-A3B",
    configs: &[QWEN3MOE_CONFIG],
    tensors: &[
        rules::DECODER_ENDS,
        rules::PRE_NORMS,
        rules::ATTENTION,
        rules::QK_NORMS,
        rules::QWEN_EXPERTS,
        rules::STACKED_EXPERTS,
    ],
    // `Qwen3MoeModel` is a `Qwen2MoeModel` in the reference. Its config has no shared expert, so that
    // key is left out.
    keys: qwen2moe::keys,
    built_in: &[NORMALIZES_EXPERTS],
    ..DECODER
};

/// `Qwen3MoeConfig`.
const QWEN3MOE_CONFIG: ConfigClass = ConfigClass::new("qwen3_moe").adjusted(|map| {
    adjust::window_if_used(map, Json::Null);
    Ok(())
});
