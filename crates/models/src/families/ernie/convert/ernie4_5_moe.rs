//! Ernie 4.5, mixtures of experts.
//!
//! Config keys: those of every text model, experts and which layers have them.
//!
//! Transforms: experts become one tensor. Multi-token prediction is left out.
//!
//! Source: `Ernie4_5MoeModel` in `conversion/ernie.py`.

use crate::families::ernie::convert::ernie4_5;
use crate::prelude::*;

pub const ERNIE4_5_MOE: Arch = Arch {
    name: "ernie4_5-moe",
    classes: &[Class::new("Ernie4_5_MoeForCausalLM")],
    example: "baidu/ERNIE-4.5-21B-A3B-PT",
    configs: &[ERNIE4_5_MOE_CONFIG],
    tensors: &[
        rules::DECODER_ENDS,
        rules::PRE_NORMS,
        rules::ATTENTION,
        &rules::gated_mlp(Need::If(|hparams, bid| !is_mixture(hparams, bid))),
        ROUTER,
        &rules::gate_up_down_experts(IS_MIXTURE),
        &rules::shared_experts(Need::If(|hparams, bid| {
            is_mixture(hparams, bid) && count(hparams, "moe_num_shared_experts", 0) > 0
        })),
    ],
    keys,
    drops: |_, name| {
        let parts = ["mtp_block.", "mtp_emb_norm.", "mtp_hidden_norm.", "mtp_linear_proj."];
        let part = name.strip_prefix("model.").or_else(|| name.strip_prefix("ernie."))?;
        let is_predicted = parts.iter().any(|start| part.starts_with(start));
        is_predicted.then_some(drops::NO_PREDICTION)
    },
    rename: |_, name| name.contains("ernie.").then(|| name.replace("ernie.", "model.")),
    vocab: ernie4_5::ROUTE,
    ..DECODER
};

const ROUTER: &[TensorRule] = &[
    TensorRule::copy(&["model.layers.{bid}.mlp.gate"], "blk.{bid}.ffn_gate_inp").need(IS_MIXTURE),
    TensorRule::copy(&["model.layers.{bid}.mlp.moe_statics.e_score_correction"], "blk.{bid}.exp_probs_b")
        .need(Need::Optional),
];

const IS_MIXTURE: Need = Need::If(is_mixture);

fn count(hparams: &Hparams, key: &str, default: u64) -> u64 {
    hparams.get(key).and_then(Json::as_u64).unwrap_or(default)
}

/// True if a layer is a mixture: every few layers between the first and the last named one.
fn is_mixture(hparams: &Hparams, bid: u64) -> bool {
    // `moe_layer_interval` 1 in all releases: all layers from the start index to the end index.
    let interval = count(hparams, "moe_layer_interval", 1).max(1);
    bid >= count(hparams, "moe_layer_start_index", 0)
        && bid <= count(hparams, "moe_layer_end_index", u64::MAX)
        && (bid + 1).is_multiple_of(interval)
}

/// `Ernie4_5_MoeConfig`.
const ERNIE4_5_MOE_CONFIG: ConfigClass = ConfigClass::new("ernie4_5_moe").adjusted(last_layer);

/// A last layer of -1 is the last one there is.
fn last_layer(map: &mut Map<String, Json>) -> Result<(), String> {
    // -1 counts from the end, as Python indexes.
    if map.get("moe_layer_end_index").is_none_or(|last| last.is_null() || last.as_i64() == Some(-1)) {
        let layers = map.get("num_hidden_layers").and_then(Json::as_u64).unwrap_or(0);
        map.insert("moe_layer_end_index".into(), layers.saturating_sub(1).into());
    }
    Ok(())
}

fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    text_keys(hparams, keys)?;
    // The names of this family are not among those that `text_keys` knows.
    keys.needed("expert_count", hparams, &["moe_num_experts"])?;
    keys.needed("expert_used_count", hparams, &["moe_k"])?;
    keys.needed("interleave_moe_layer_step", hparams, &["moe_layer_interval"])?;
    keys.needed("leading_dense_block_count", hparams, &["moe_layer_start_index"])?;
    keys.count("expert_feed_forward_length", hparams, &["moe_intermediate_size"])?;
    keys.count("expert_shared_count", hparams, &["moe_num_shared_experts"])?;
    let shared = hparams.get_u64("moe_num_shared_experts")?.unwrap_or(0);
    let length = hparams.get_u64("intermediate_size")?;
    let heads = hparams.get_u64("num_key_value_heads")?;
    if let (1.., Some(length), Some(heads)) = (shared, length, heads) {
        // So the reference has it, whatever the heads have to do with it.
        let length = length.checked_div(heads).unwrap_or(0);
        keys.set_derived("expert_shared_feed_forward_length", "intermediate_size", length)?;
    }
    Ok(())
}
