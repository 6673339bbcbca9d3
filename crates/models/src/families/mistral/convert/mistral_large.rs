//! Mistral Large 3 as its authors publish it: `params.json` and `consolidated.*`. Latent attention and a mixture of
//! experts, which are those of DeepSeek 2 under other names.
//!
//! Config keys: those of DeepSeek 2, from Mistral's names; `yarn` and `llama_4_scaling` like in Mistral's other models.
//!
//! Transforms: those of DeepSeek 2.
//!
//! Source: `MistralMoeModel` in `conversion/mistral.py`.

use crate::families::llama::convert::native;
use crate::parts::latent::{self, LATENT};
use crate::prelude::*;

pub const MISTRAL_MOE_PARAMS: Arch = Arch {
    name: "mistral-moe-params",
    written: Some("deepseek2"),
    classes: &[Class::new("MistralMoeParams")],
    example: "mistralai/Mistral-Large-3-675B-Instruct-2512",
    configs: &[],
    raw_config: true,
    needs: &["dim", "n_layers", "n_heads", "kv_lora_rank", "moe", "yarn", "vocab_size"],
    rename: |_, name| rename(name),
    prepare,
    keys,
    vocab: native::MISTRAL_ROUTE,
    export: Export::NotExportable("exported in the Hugging Face layout, as architecture `deepseek2`"),
    yarn: YarnScales::ScoresByMultiplier,
    ..LATENT
};

/// Mistral's names of what is no layer or one, and DeepSeek's.
const ENDS: &[(&str, &str)] = &[
    ("tok_embeddings.weight", "model.embed_tokens.weight"),
    ("norm.weight", "model.norm.weight"),
    ("output.weight", "lm_head.weight"),
];

/// Parts of a layer.
const PARTS: &[(&str, &str)] = &[
    ("attention_norm", "input_layernorm"),
    ("ffn_norm", "post_attention_layernorm"),
    ("attention.wq", "self_attn.q_proj"),
    ("attention.wq_a", "self_attn.q_a_proj"),
    ("attention.q_a_norm", "self_attn.q_a_layernorm"),
    ("attention.wq_b", "self_attn.q_b_proj"),
    ("attention.wkv_a_with_mqa", "self_attn.kv_a_proj_with_mqa"),
    ("attention.kv_a_norm", "self_attn.kv_a_layernorm"),
    ("attention.wkv_b", "self_attn.kv_b_proj"),
    ("attention.wo", "self_attn.o_proj"),
    ("gate", "mlp.gate"),
];

/// Matrices of a feed-forward part or of an expert.
const MATRICES: &[(&str, &str)] = &[("w1", "gate_proj"), ("w2", "down_proj"), ("w3", "up_proj")];

/// DeepSeek's name of a tensor.
fn rename(name: &str) -> Option<String> {
    let named = |names: &[(&str, &'static str)], name: &str| {
        names.iter().find(|(mistral, _)| *mistral == name).map(|(_, deepseek)| *deepseek)
    };
    if let Some(end) = named(ENDS, name) {
        return Some(end.to_owned());
    }
    let (bid, part) = name.strip_prefix("layers.")?.strip_suffix(".weight")?.split_once('.')?;
    let part = match (named(PARTS, part), part.rsplit_once('.')) {
        (Some(part), _) => part.to_owned(),
        (None, Some(("feed_forward", matrix))) => format!("mlp.{}", named(MATRICES, matrix)?),
        // `experts.{xid}`, `shared_experts`.
        (None, Some((of, matrix))) => format!("mlp.{of}.{}", named(MATRICES, matrix)?),
        (None, None) => return None,
    };
    Some(format!("model.layers.{bid}.{part}.weight"))
}

/// Mistral's config keys with DeepSeek's names.
const CONFIG_KEYS: &[(&str, &str)] = &[
    ("dim", "hidden_size"),
    ("norm_eps", "rms_norm_eps"),
    ("n_kv_heads", "num_key_value_heads"),
    ("n_layers", "num_hidden_layers"),
    ("n_heads", "num_attention_heads"),
    ("hidden_dim", "intermediate_size"),
    ("tied_embeddings", "tie_word_embeddings"),
];

/// As [`CONFIG_KEYS`], of `moe`.
const MOE_KEYS: &[(&str, &str)] = &[
    ("route_every_n", "moe_layer_freq"),
    ("first_k_dense_replace", "first_k_dense_replace"),
    ("num_experts_per_tok", "num_experts_per_tok"),
    ("num_experts", "n_routed_experts"),
    ("expert_hidden_dim", "moe_intermediate_size"),
    ("routed_scale", "routed_scaling_factor"),
    ("num_shared_experts", "n_shared_experts"),
    ("num_expert_groups", "n_group"),
    ("num_expert_groups_per_tok", "topk_group"),
];

fn prepare(mut params: Hparams, _: &[SourceTensor]) -> Result<Hparams, ArchError> {
    let Some(moe) = params.get("moe").and_then(Json::as_object).cloned() else {
        return Err(missing("moe"));
    };
    for (key, of_deepseek) in CONFIG_KEYS {
        if let Some(value) = params.get(key).cloned() {
            params = params.with(of_deepseek, value);
        }
    }
    for (key, of_deepseek) in MOE_KEYS {
        if let Some(value) = moe.get(*key) {
            params = params.with(of_deepseek, value.clone());
        }
    }
    if params.get("max_position_embeddings").is_none() {
        params = params.with("max_position_embeddings", 128_000.into());
    }
    Ok(params.with("norm_topk_prob", true.into()).with("scoring_func", "softmax".into()))
}

fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    latent::keys(hparams, keys)?;
    native::scaling_keys(hparams, keys)?;
    let length = "original_max_position_embeddings";
    let yarn = hparams.get("yarn").and_then(|yarn| yarn.get(length));
    let original = yarn.ok_or_else(|| missing(&format!("yarn.{length}")))?;
    keys.set_prefixed(
        "attention.temperature_length",
        Value::U32(to_u32(&format!("yarn.{length}"), original)?),
    );
    // A tenth of the factor that readers of all other architectures find under this key.
    keys.set_prefixed("rope.scaling.yarn_log_multiplier", Value::F32(0.1));
    Ok(())
}
