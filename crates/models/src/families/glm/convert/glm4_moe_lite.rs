//! GLM 4.7 Flash: DeepSeek's latent attention and mixture under another vendor's name.
//!
//! Config keys: those of DeepSeek 2, and the MTP layers.
//!
//! Transforms: those of DeepSeek 2; MTP layers follow the others.
//!
//! Source: `Glm4MoeLiteModel` in `conversion/glm.py`.

use crate::families::deepseek::convert::deepseek2::{self, DEEPSEEK2};
use crate::families::glm::convert::glm4moe;
use crate::prelude::*;

/// The row.
pub const GLM4_MOE_LITE: Arch = Arch {
    name: "glm4-moe-lite",
    written: Some("deepseek2"),
    classes: &[Class::new("Glm4MoeLiteForCausalLM")],
    example: "zai-org/GLM-4.7-Flash",
    configs: &[GLM4_MOE_LITE_CONFIG],
    tensors: &[
        rules::DECODER_ENDS,
        rules::PRE_NORMS,
        deepseek2::ATTENTION,
        &rules::gated_mlp(Need::If(|hparams, bid| !is_mixture(hparams, bid))),
        &rules::qwen_experts(Need::If(is_mixture)),
        &rules::shared_experts(Need::If(is_mixture)),
        deepseek2::CORRECTION,
        glm4moe::PREDICTION,
    ],
    keys: |hparams, keys| {
        deepseek2::keys(hparams, keys)?;
        keys.count("nextn_predict_layers", hparams, &[glm4moe::PREDICTED])
    },
    drops: deepseek2::drop_tied,
    prepare: glm4moe::count_predicted,
    prediction: Some(glm4moe::PREDICTED_LAYERS),
    vocab: glm4moe::ROUTE,
    ..DEEPSEEK2
};

/// True if the feed-forward part of a layer is a mixture. The Hub's files state the number of dense layers,
/// newer ones list them. An MTP layer is a mixture.
pub fn is_mixture(hparams: &Hparams, bid: u64) -> bool {
    let kind = hparams.get("mlp_layer_types").and_then(|types| types.get(usize::try_from(bid).ok()?));
    kind.map_or_else(|| deepseek2::is_mixture(hparams, bid), |kind| kind == "sparse")
}

/// `Glm4MoeLiteConfig` of transformers 5.23.
const GLM4_MOE_LITE_CONFIG: ConfigClass = ConfigClass {
    model_type: "glm4_moe_lite",
    fields: &[
        &[
            ("vocab_size", INT, Int(154_880)),
            ("hidden_size", INT, Int(2048)),
            ("intermediate_size", INT, Int(10240)),
            ("moe_intermediate_size", INT, Int(1536)),
            ("num_hidden_layers", INT, Int(47)),
            ("num_attention_heads", INT, Int(20)),
            ("num_key_value_heads", INT, Int(20)),
            ("n_shared_experts", INT, Int(1)),
            ("n_routed_experts", INT, Int(64)),
            ("output_router_logits", BOOL, Bool(false)),
            ("routed_scaling_factor", FLOAT, Float(1.8)),
            ("kv_lora_rank", INT, Int(512)),
            ("q_lora_rank", INT | NULL, Int(768)),
            ("qk_rope_head_dim", INT, Int(64)),
            ("v_head_dim", INT, Int(256)),
            ("qk_nope_head_dim", INT, Int(192)),
            ("n_group", INT, Int(1)),
            ("topk_group", INT, Int(1)),
            ("num_experts_per_tok", INT, Int(4)),
            ("norm_topk_prob", BOOL, Bool(true)),
            ("max_position_embeddings", INT, Int(202_752)),
            ("rms_norm_eps", FLOAT, Float(1e-5)),
            ("bos_token_id", INT | NULL, Int(0)),
            ("eos_token_id", INT | NULL | INTS, Int(1)),
            ("pretraining_tp", INT, Int(1)),
            ("rope_interleave", BOOL, Bool(true)),
            ("mlp_layer_types", NULL | TEXTS, Null),
            ("attention_bias", BOOL, Bool(false)),
            ("attention_dropout", INT | FLOAT, Float(0.0)),
        ],
        DECODER_FIELDS,
    ],
    renamed: &[("num_local_experts", "n_routed_experts")],
    adjust: |map| adjust::dense_then_sparse(map, 1),
    ..BASE
};
