//! OLMoE.
//!
//! Config keys: those of every text model, with a fixed norm epsilon.
//!
//! Transforms: experts become one tensor.
//!
//! Source: `OlmoeModel` in `conversion/olmo.py`.

use crate::families::olmo::convert::olmo;
use crate::prelude::*;

/// The row.
pub const OLMOE: Arch = Arch {
    name: "olmoe",
    classes: &[Class::new("OlmoeForCausalLM")],
    example: "allenai/OLMoE-1B-7B-0924",
    configs: &[OLMOE_CONFIG],
    tensors: &[
        rules::DECODER_ENDS,
        rules::PRE_NORMS,
        rules::ATTENTION,
        rules::QK_NORMS,
        rules::QWEN_EXPERTS,
        rules::STACKED_EXPERTS,
    ],
    keys,
    built_in: &[KEEPS_EXPERT_WEIGHTS, BuiltIn::is("rms_norm_eps", &["1e-5"])],
    ..DECODER
};

/// `OlmoeConfig` of transformers 5.23.
const OLMOE_CONFIG: ConfigClass = ConfigClass {
    model_type: "olmoe",
    fields: &[
        &[
            ("hidden_size", INT, Int(2048)),
            ("intermediate_size", INT, Int(2048)),
            ("num_hidden_layers", INT, Int(16)),
            ("num_attention_heads", INT, Int(16)),
            ("max_position_embeddings", INT, Int(4096)),
            ("rms_norm_eps", FLOAT, Float(1e-5)),
            // Not written, unlike in OLMo 1.
            ("clip_qkv", FLOAT | NULL, Null),
            ("num_experts_per_tok", INT, Int(8)),
            ("num_experts", INT, Int(64)),
            ("output_router_logits", BOOL, Bool(false)),
            ("router_aux_loss_coef", FLOAT, Float(0.01)),
            ("norm_topk_prob", BOOL, Bool(false)),
        ],
        olmo::FIELDS,
        DECODER_FIELDS,
    ],
    fill: &[Fill::KvHeads],
    renamed: &[("num_local_experts", "num_experts")],
    ..BASE
};

fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    // `set_gguf_parameters` calls its parent, then sets one key over it.
    text_keys(hparams, keys)?;
    // `OlmoeModel` writes the constant over what `text_keys` has read.
    keys.set_prefixed("attention.layer_norm_rms_epsilon", Value::F32(1e-5));
    Ok(())
}
