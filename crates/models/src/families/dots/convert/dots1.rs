//! dots.llm1.
//!
//! Config keys: those of Qwen's mixtures, leading dense layers, the weights of the experts.
//!
//! Transforms: experts become one tensor.
//!
//! Source: `Dots1Model` in `conversion/dots1.py`.

use crate::families::deepseek::convert::deepseek2::{CORRECTION, has_shared, is_mixture};
use crate::families::qwen::convert::qwen2moe;
use crate::prelude::*;

/// The row.
pub const DOTS1: Arch = Arch {
    name: "dots1",
    classes: &[Class::new("Dots1ForCausalLM")],
    example: "rednote-hilab/dots.llm1.inst",
    configs: &[DOTS1_CONFIG],
    tensors: &[
        rules::DECODER_ENDS,
        rules::PRE_NORMS,
        rules::ATTENTION,
        rules::QK_NORMS,
        // As in DeepSeek: the first `first_k_dense_replace` layers are dense.
        &rules::gated_mlp(Need::If(|hparams, bid| !is_mixture(hparams, bid))),
        &rules::qwen_experts(Need::If(is_mixture)),
        // Other programs than transformers save the stacked tensors of its classes as they are.
        rules::STACKED_EXPERTS,
        &rules::shared_experts(Need::If(has_shared)),
        CORRECTION,
    ],
    keys,
    ..DECODER
};

/// `Dots1Config` of transformers 5.23.
const DOTS1_CONFIG: ConfigClass = ConfigClass {
    model_type: "dots1",
    fields: &[
        &[
            ("vocab_size", INT, Int(152_064)),
            ("hidden_size", INT, Int(4608)),
            ("intermediate_size", INT, Int(10944)),
            ("moe_intermediate_size", INT, Int(1408)),
            ("num_hidden_layers", INT, Int(62)),
            ("num_key_value_heads", INT | NULL, Int(32)),
            ("n_shared_experts", INT | NULL, Null),
            ("n_routed_experts", INT | NULL, Null),
            ("output_router_logits", BOOL, Bool(false)),
            ("n_group", INT | NULL, Int(1)),
            ("topk_group", INT | NULL, Int(1)),
            ("num_experts_per_tok", INT | NULL, Null),
            ("first_k_dense_replace", INT | NULL, Int(0)),
            ("norm_topk_prob", BOOL | NULL, Bool(false)),
            ("max_position_embeddings", INT, Int(2048)),
            ("rms_norm_eps", FLOAT, Float(1e-6)),
            ("attention_bias", BOOL, Bool(false)),
            ("attention_dropout", INT | FLOAT | NULL, Float(0.0)),
            ("routed_scaling_factor", FLOAT, Float(1.0)),
            ("sliding_window", INT | NULL, Int(4096)),
            ("max_window_layers", INT | NULL, Int(62)),
            ("layer_types", NULL | TEXTS, Null),
            ("bos_token_id", INT | NULL, Null),
            ("eos_token_id", INT | NULL | INTS, Null),
        ],
        DECODER_FIELDS,
    ],
    fill: &[Fill::KvHeads],
    renamed: &[("num_local_experts", "n_routed_experts")],
    ..BASE
};

fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    // `Dots1Model` is a `Qwen2MoeModel` in the reference and calls its keys first.
    qwen2moe::keys(hparams, keys)?;
    keys.needed("leading_dense_block_count", hparams, &["first_k_dense_replace"])?;
    keys.needed("expert_shared_count", hparams, &["n_shared_experts"])?;
    keys.needed_number("expert_weights_scale", hparams, &["routed_scaling_factor"])?;
    keys.flag("expert_weights_norm", hparams, "norm_topk_prob");
    Ok(())
}
