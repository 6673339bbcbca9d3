//! Apertus.
//!
//! Config keys: those of llama; the parameters of the activation function, which the checkpoint has as tensors.
//!
//! Transforms: rotary scaling of type `llama3` becomes the computed tensor `rope_freqs`.
//!
//! Source: `ApertusModel` in `conversion/llama.py`.

use crate::families::llama::convert::llama;
use crate::families::llama::convert::vocab;
use crate::prelude::*;

pub const APERTUS: Arch = Arch {
    name: "apertus",
    classes: &[Class::new("ApertusForCausalLM")],
    example: "swiss-ai/Apertus-8B-Instruct-2509",
    configs: &[APERTUS_CONFIG],
    tensors: &[rules::DECODER_ENDS, NORMS, rules::ATTENTION, rules::QK_NORMS, rules::UNGATED_MLP],
    numbers: &[
        // Both alphas are vectors of one element; beta and eps have no dimensions.
        NumberRule::new("model.layers.{bid}.mlp.act_fn.alpha_n", "xielu.alpha_n"),
        NumberRule::new("model.layers.{bid}.mlp.act_fn.alpha_p", "xielu.alpha_p"),
        NumberRule { dims: &[], ..NumberRule::new("model.layers.{bid}.mlp.act_fn.beta", "xielu.beta") },
        NumberRule { dims: &[], ..NumberRule::new("model.layers.{bid}.mlp.act_fn.eps", "xielu.eps") },
    ],
    keys: llama::keys,
    computed: llama::computed,
    vocab: vocab::ROUTE,
    harmless: &["qk_norm=true"],
    ..DECODER
};

const NORMS: &[TensorRule] = &[
    TensorRule::copy(&["model.layers.{bid}.attention_layernorm"], "blk.{bid}.attn_norm"),
    TensorRule::copy(&["model.layers.{bid}.feedforward_layernorm"], "blk.{bid}.ffn_norm"),
];

/// `ApertusConfig`.
const APERTUS_CONFIG: ConfigClass = ConfigClass::new("apertus").adjusted(|map| {
    // The default argument of `ApertusConfig`: from 8192 positions to 65536.
    if map.get("rope_parameters").is_none_or(Json::is_null) {
        let rope = json!({"rope_type": "llama3", "rope_theta": 12_000_000.0, "factor": 8.0,
                "original_max_position_embeddings": 8192, "low_freq_factor": 1.0, "high_freq_factor": 4.0});
        map.insert("rope_parameters".into(), rope);
    }
    Ok(())
});
