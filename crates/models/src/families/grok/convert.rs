//! Grok 1 and 2.
//!
//! Config keys: those of every text model, where logits are capped, scaling of contexts that stands flat, three scales.
//!
//! Transforms: experts become one tensor. The two releases name their tensors differently.
//!
//! Source: `GrokModel` in `conversion/grok.py`.

use crate::prelude::*;

pub const GROK: Arch = Arch {
    name: "grok",
    classes: &[Class::new("GrokForCausalLM"), Class::new("Grok1ForCausalLM")],
    example: "keyfan/grok-1-hf",
    configs: &[ConfigClass::new("git")],
    tensors: &[ENDS, LAYERS, EXPERTS, DENSE],
    keys,
    vocab: Route::SENTENCE_PIECE_OR_GPT2,
    harmless: &[
        "residual_moe",
        "rope_parameters.attention_factor",
        "rope_parameters.beta_fast",
        "rope_parameters.beta_slow",
        "rope_parameters.original_max_position_embeddings",
    ],
    ..DECODER
};

const ENDS: &[TensorRule] = &[
    // If a rule has two names, the first is that of Grok 1, the second that of Grok 2.
    TensorRule::copy(&["transformer.in_out_embed", "model.embed_tokens"], "token_embd"),
    TensorRule::copy(&["transformer.rms_norm", "model.norm"], "output_norm"),
    TensorRule::copy(&["lm_head"], "output").need(Need::Optional),
];

const LAYERS: &[TensorRule] = &[
    TensorRule::copy(
        &["transformer.decoder_layer.{bid}.rms_norm", "model.layers.{bid}.pre_attn_norm"],
        "blk.{bid}.attn_norm",
    ),
    TensorRule::copy(
        &[
            "transformer.decoder_layer.{bid}.multi_head_attention.query",
            "model.layers.{bid}.self_attn.q_proj",
        ],
        "blk.{bid}.attn_q",
    ),
    TensorRule::copy(
        &["transformer.decoder_layer.{bid}.multi_head_attention.key", "model.layers.{bid}.self_attn.k_proj"],
        "blk.{bid}.attn_k",
    ),
    TensorRule::copy(
        &[
            "transformer.decoder_layer.{bid}.multi_head_attention.value",
            "model.layers.{bid}.self_attn.v_proj",
        ],
        "blk.{bid}.attn_v",
    ),
    TensorRule::copy(
        &[
            "transformer.decoder_layer.{bid}.multi_head_attention.linear",
            "model.layers.{bid}.self_attn.o_proj",
        ],
        "blk.{bid}.attn_output",
    ),
    TensorRule::copy(
        &["transformer.decoder_layer.{bid}.rms_norm_1", "model.layers.{bid}.post_attn_norm"],
        "blk.{bid}.attn_output_norm",
    ),
    TensorRule::copy(
        &["transformer.decoder_layer.{bid}.rms_norm_2", "model.layers.{bid}.pre_moe_norm"],
        "blk.{bid}.ffn_norm",
    ),
    // The norm after a layer's last part has two names in the file, too.
    TensorRule::copy(&["transformer.decoder_layer.{bid}.rms_norm_3"], "blk.{bid}.layer_output_norm")
        .need(Need::Optional),
    TensorRule::copy(&["model.layers.{bid}.post_moe_norm"], "blk.{bid}.post_ffw_norm").need(Need::Optional),
];

const EXPERTS: &[TensorRule] = &[
    TensorRule::copy(
        &["transformer.decoder_layer.{bid}.router", "model.layers.{bid}.block_sparse_moe.gate"],
        "blk.{bid}.ffn_gate_inp",
    ),
    // y = w2 (act(w1 x) * w3 x): w1 is the gate, w2 down, w3 up. Grok 1: linear, linear_1, linear_v.
    TensorRule::stack(
        &[
            "transformer.decoder_layer.{bid}.moe.{xid}.linear",
            "model.layers.{bid}.block_sparse_moe.experts.{xid}.w1",
        ],
        "blk.{bid}.ffn_gate_exps",
    ),
    TensorRule::stack(
        &[
            "transformer.decoder_layer.{bid}.moe.{xid}.linear_1",
            "model.layers.{bid}.block_sparse_moe.experts.{xid}.w2",
        ],
        "blk.{bid}.ffn_down_exps",
    ),
    TensorRule::stack(
        &[
            "transformer.decoder_layer.{bid}.moe.{xid}.linear_v",
            "model.layers.{bid}.block_sparse_moe.experts.{xid}.w3",
        ],
        "blk.{bid}.ffn_up_exps",
    ),
];

/// Dense part of Grok 2, in parallel with the mixture.
const DENSE: &[TensorRule] = &rules::gated_mlp(Need::Optional);

fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    text_keys(hparams, keys)?;
    let number = |keys: &mut Keys, key: &str, name: &'static str, default: f64| -> Result<(), ArchError> {
        keys.derived_from(key, &[name]);
        let number = hparams.get_f64(name)?.unwrap_or(default);
        keys.set_prefixed(key, Value::F32(number as f32));
        Ok(())
    };
    // Capped scores: s = cap tanh(s / cap).
    number(keys, "attn_logit_softcapping", "attn_logit_softcapping", 30.0)?;
    number(keys, "router_logit_softcapping", "router_logit_softcapping", 30.0)?;
    if hparams.get_f64("final_logit_softcapping")?.is_some_and(|cap| cap != 0.0) {
        keys.number("final_logit_softcapping", hparams, &["final_logit_softcapping"])?;
    }
    keys.derived_from("final_logit_softcapping", &["final_logit_softcapping"]);
    keys.count("expert_feed_forward_length", hparams, &["moe_intermediate_size"])?;
    // "original" is taken for "yarn", which it seems to have been meant for.
    keys.derived_from("rope.scaling.type", &["rope_type"]);
    if hparams.get("rope_type").is_some_and(|kind| kind == "yarn" || kind == "original") {
        keys.set_prefixed("rope.scaling.type", "yarn".into());
        keys.needed_number("rope.scaling.factor", hparams, &["scaling_factor"])?;
        keys.needed("rope.scaling.original_context_length", hparams, &["original_max_position_embeddings"])?;
        keys.needed_number("rope.scaling.yarn_ext_factor", hparams, &["extrapolation_factor"])?;
        keys.needed_number("rope.scaling.yarn_attn_factor", hparams, &["attn_factor"])?;
        // The model multiplies YaRN's magnitude by its factor; llama.cpp uses the key above only if it does not extrapolate.
        if let Some(factor) = hparams.get_f64("attn_factor")?.filter(|factor| *factor != 1.0) {
            keys.set_prefixed("rope.scaling.attn_factor", Value::F32(factor as f32));
        }
        keys.needed_number("rope.scaling.yarn_beta_fast", hparams, &["beta_fast"])?;
        keys.needed_number("rope.scaling.yarn_beta_slow", hparams, &["beta_slow"])?;
    }
    if hparams.get_u64("attn_temperature_len")?.is_some_and(|length| length > 0) {
        keys.count("attention.temperature_length", hparams, &["attn_temperature_len"])?;
    }
    keys.derived_from("attention.temperature_length", &["attn_temperature_len"]);
    // 1 / sqrt(head_dim), the usual scale of scores, if the config has no other.
    let usual = (hparams.head_dim()? as f64).powf(-0.5);
    number(keys, "attention.output_scale", "attn_output_multiplier", usual)?;
    keys.needed_number("embedding_scale", hparams, &["embedding_multiplier_scale"])?;
    keys.needed_number("logit_scale", hparams, &["output_multiplier_scale"])
}
