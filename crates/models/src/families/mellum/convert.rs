//! Mellum 2: a mixture of experts with windows.
//!
//! Config keys: those of every text model, the length of the experts, the window and which layers have it.
//!
//! Transforms: experts become one tensor.
//!
//! Source: `MellumModel` in `conversion/mellum.py`.

use crate::prelude::*;

/// The row.
pub const MELLUM: Arch = Arch {
    name: "mellum",
    classes: &[Class::new("MellumForCausalLM")],
    example: "JetBrains/Mellum2-12B-A2.5B-Base",
    configs: &[MELLUM_CONFIG],
    tensors: &[
        rules::DECODER_ENDS,
        rules::PRE_NORMS,
        rules::ATTENTION,
        rules::QK_NORMS,
        rules::QWEN_EXPERTS,
        rules::STACKED_EXPERTS,
    ],
    keys,
    harmless: &["mlp_layer_types"],
    built_in: &[NORMALIZES_EXPERTS],
    ..DECODER
};

fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    text_keys(hparams, keys)?;
    keys.count("expert_feed_forward_length", hparams, &["moe_intermediate_size"])?;
    // Without a window every layer sees all tokens, and no pattern is written.
    if hparams.get("use_sliding_window") == Some(&Json::Bool(false))
        || hparams.get("sliding_window").is_none()
    {
        return Ok(());
    }
    keys.count("attention.sliding_window", hparams, &["sliding_window"])?;
    let slides = hparams.sliding_layers().ok_or_else(|| missing("layer_types"))?;
    keys.set_prefixed("attention.sliding_window_pattern", Value::Array(Array::Bool(slides)));
    Ok(())
}

/// `MellumConfig` of transformers 5.23.
const MELLUM_CONFIG: ConfigClass = ConfigClass {
    model_type: "mellum",
    fields: &[
        &[
            ("vocab_size", INT, Int(98_304)),
            ("hidden_size", INT, Int(2304)),
            ("intermediate_size", INT, Int(7168)),
            ("num_hidden_layers", INT, Int(28)),
            ("num_key_value_heads", INT, Int(4)),
            ("max_position_embeddings", INT, Int(131_072)),
            ("rms_norm_eps", FLOAT, Float(1e-6)),
            ("attention_bias", BOOL, Bool(false)),
            ("sliding_window", INT | NULL, Int(1024)),
            ("attention_dropout", INT | FLOAT, Float(0.0)),
            ("moe_intermediate_size", INT, Int(896)),
            ("num_experts_per_tok", INT, Int(8)),
            ("num_experts", INT, Int(64)),
            ("norm_topk_prob", BOOL, Bool(true)),
            ("output_router_logits", BOOL, Bool(false)),
            ("router_aux_loss_coef", FLOAT, Float(0.001)),
            ("bos_token_id", INT | NULL, Null),
            ("eos_token_id", INT | NULL | INTS, Null),
            ("head_dim", INT, Int(128)),
            ("layer_types", NULL | TEXTS, Null),
            ("mlp_layer_types", NULL | TEXTS, Null),
        ],
        DECODER_FIELDS,
    ],
    has_rope: false,
    adjust: |map| {
        adjust::layer_types(map, |_| false)?;
        adjust::dense_then_sparse(map, 0)?;
        if map.get("rope_parameters").is_none_or(Json::is_null) {
            let one = |theta: f64| json!({"rope_type": "default", "rope_theta": theta});
            let both = json!({"full_attention": one(500_000.0), "sliding_attention": one(10_000.0)});
            map.insert("rope_parameters".into(), both);
        }
        Ok(())
    },
    ..BASE
};
