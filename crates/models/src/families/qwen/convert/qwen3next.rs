//! Qwen 3 Next: gated delta nets with full attention in every fourth layer, and a mixture of experts.
//!
//! Config keys: those of Qwen's mixtures, lengths of the linear attention, which layers have it.
//!
//! Transforms: queries, keys, values and gates of the linear attention are stored grouped by key head and
//! come apart; norms are stored as their distance from one, but for that of the linear attention;
//! decay is minus the exponential of what is stored. Layers of multi-token prediction follow the
//! others.
//!
//! Source: `Qwen3NextModel` and `_QwenMtpMixin` in `conversion/qwen.py`.

use crate::families::glm::convert::glm4moe::without_predicted;
use crate::families::qwen::convert::qwen2moe;
use crate::prelude::*;

pub const QWEN3NEXT: Arch = Arch {
    name: "qwen3next",
    classes: &[Class::new("Qwen3NextForCausalLM")],
    example: "Qwen/Qwen3-Next-80B-A3B-Instruct",
    configs: &[QWEN3NEXT_CONFIG],
    tensors: &[
        LAYERS,
        FULL_ATTENTION,
        LINEAR_ATTENTION,
        rules::QWEN_EXPERTS,
        rules::STACKED_EXPERTS,
        qwen2moe::SHARED_EXPERT,
        PREDICTION,
    ],
    keys,
    rename: |hparams, name| rename(hparams, name.strip_prefix("model.").unwrap_or(name)),
    export_name: |hparams, _, name| export_name(hparams, name),
    prepare,
    prediction: Some(PREDICTED_LAYERS),
    built_in: &[NORMALIZES_EXPERTS],
    ..DECODER
};

pub const LAYERS: &[TensorRule] = &[
    TensorRule::copy(&["model.embed_tokens"], "token_embd"),
    TensorRule::norm1p(&["model.norm"], "output_norm"),
    TensorRule::copy(&["lm_head"], "output").need(Need::Optional),
    TensorRule::norm1p(&["model.layers.{bid}.input_layernorm"], "blk.{bid}.attn_norm"),
    TensorRule::norm1p(&["model.layers.{bid}.post_attention_layernorm"], "blk.{bid}.post_attention_norm"),
];

pub const FULL_ATTENTION: &[TensorRule] = &[
    TensorRule::copy(&["model.layers.{bid}.self_attn.q_proj"], "blk.{bid}.attn_q").need(IS_FULL),
    TensorRule::copy(&["model.layers.{bid}.self_attn.k_proj"], "blk.{bid}.attn_k").need(IS_FULL),
    TensorRule::copy(&["model.layers.{bid}.self_attn.v_proj"], "blk.{bid}.attn_v").need(IS_FULL),
    TensorRule::copy(&["model.layers.{bid}.self_attn.o_proj"], "blk.{bid}.attn_output").need(IS_FULL),
    TensorRule::norm1p(&["model.layers.{bid}.self_attn.q_norm"], "blk.{bid}.attn_q_norm").need(IS_FULL),
    TensorRule::norm1p(&["model.layers.{bid}.self_attn.k_norm"], "blk.{bid}.attn_k_norm").need(IS_FULL),
];

const LINEAR_ATTENTION: &[TensorRule] = &[
    TensorRule::part(&["model.layers.{bid}.linear_attn.in_proj_qkvz"], "blk.{bid}.attn_qkv", |hparams, _| {
        // in_proj_qkvz holds, for each key head, rows [q: d_k | k: d_k | v: r d_v | z: r d_v] with r value heads to a key
        // head. attn_qkv has all q, then all k, then all v; attn_gate has all z.
        let [head, values] = head_rows(hparams)?;
        let group = head.saturating_add(values).saturating_mul(2);
        Ok(RowMap::Regroup { group, parts: [(0, head), (head, head), (head.saturating_mul(2), values)] })
    })
    .need(IS_LINEAR),
    TensorRule::part(&["model.layers.{bid}.linear_attn.in_proj_qkvz"], "blk.{bid}.attn_gate", gates)
        .need(IS_LINEAR),
    TensorRule::copy(&["model.layers.{bid}.linear_attn.in_proj_ba"], "blk.{bid}.ssm_ba").need(IS_LINEAR),
    TensorRule::copy(&["model.layers.{bid}.linear_attn.conv1d"], "blk.{bid}.ssm_conv1d")
        .shape(rules::SQUEEZE_CHANNEL)
        .need(IS_LINEAR),
    TensorRule::copy(&["model.layers.{bid}.linear_attn.dt_bias"], "blk.{bid}.ssm_dt")
        .bare(".bias")
        .need(IS_LINEAR),
    TensorRule::copy(&["model.layers.{bid}.linear_attn.A_log"], "blk.{bid}.ssm_a")
        .bare("")
        .element(ElementMap::MinusExp)
        .need(IS_LINEAR),
    TensorRule::copy(&["model.layers.{bid}.linear_attn.norm"], "blk.{bid}.ssm_norm").need(IS_LINEAR),
    TensorRule::copy(&["model.layers.{bid}.linear_attn.out_proj"], "blk.{bid}.ssm_out").need(IS_LINEAR),
];

/// Tensors of an MTP layer in addition to those of a complete layer.
pub const PREDICTION: &[TensorRule] = &[
    TensorRule::copy(&["model.layers.{bid}.eh_proj"], "blk.{bid}.nextn.eh_proj").need(Need::Optional),
    TensorRule::norm1p(&["model.layers.{bid}.enorm"], "blk.{bid}.nextn.enorm").need(Need::Optional),
    TensorRule::norm1p(&["model.layers.{bid}.hnorm"], "blk.{bid}.nextn.hnorm").need(Need::Optional),
    TensorRule::norm1p(&["model.layers.{bid}.shared_head.norm"], "blk.{bid}.nextn.shared_head_norm")
        .need(Need::Optional),
];

pub const IS_LINEAR: Need = Need::If(is_linear);
const IS_FULL: Need = Need::If(|hparams, bid| !is_linear(hparams, bid));

/// True if a layer has linear attention, by `layer_types`; unlisted layers do not.
pub fn is_linear(hparams: &Hparams, bid: u64) -> bool {
    let kind = hparams.get("layer_types").and_then(|types| types.get(usize::try_from(bid).ok()?));
    kind.is_some_and(|kind| kind == "linear_attention")
}

/// Rows of queries (as many as of keys) and of values (as many as of gates) of a key head.
fn head_rows(hparams: &Hparams) -> Result<[u64; 2], ArchError> {
    let key_heads = hparams.need_u64(&["linear_num_key_heads"])?;
    let value_heads = hparams.need_u64(&["linear_num_value_heads"])?;
    let share = value_heads.checked_div(key_heads);
    let share = share.ok_or_else(|| bad("linear_num_key_heads", &0.into(), "an integer above 0"))?;
    let values = hparams.need_u64(&["linear_value_head_dim"])?;
    Ok([hparams.need_u64(&["linear_key_head_dim"])?, share.saturating_mul(values)])
}

fn gates(hparams: &Hparams, _: &Shape) -> Result<RowMap, ArchError> {
    let [head, values] = head_rows(hparams)?;
    let start = head.saturating_mul(2).saturating_add(values);
    Ok(RowMap::Groups { group: start.saturating_add(values), start, rows: values, n_head: 0 })
}

/// The config key that announces layers of the prediction.
const MTP_LAYERS: &str = "mtp_num_hidden_layers";

/// MTP layers have their own name.
pub const PREDICTED_LAYERS: Predicted = Predicted {
    keys: &[MTP_LAYERS],
    is_part: |_, name| name.strip_prefix("model.").unwrap_or(name).starts_with("mtp."),
};

/// Layers of the prediction beyond which a config is broken; known models have one.
const MAX_PREDICTED: u64 = 1000;

/// Counts the layers of the prediction, of which the config may not speak, among the others.
pub fn prepare(hparams: Hparams, tensors: &[SourceTensor]) -> Result<Hparams, ArchError> {
    // Published configs do not state the number: it is read off the names `mtp.layers.N`.
    let layer = |tensor: &SourceTensor| {
        let name = tensor.name.strip_prefix("model.").unwrap_or(&tensor.name);
        name.strip_prefix("mtp.layers.")?.split_once('.')?.0.parse::<u64>().ok()
    };
    let found = || tensors.iter().filter_map(layer).max().map_or(0, |last| last.saturating_add(1));
    let mut stated = hparams.get_u64(MTP_LAYERS)?.filter(|count| *count > 0);
    let trunk = hparams.n_layers()?;
    let mut hparams = hparams;
    // An exported file has the names of the table. A tokenizer by itself has no tensors.
    let in_table = format!("model.layers.{trunk}.");
    let is_part = |tensor: &SourceTensor| {
        let name = tensor.name.replacen("language_model.", "", 1);
        name.starts_with(&in_table) || name.strip_prefix("model.").unwrap_or(&name).starts_with("mtp.")
    };
    if let Some(predicted) = stated.filter(|_| !tensors.is_empty() && !tensors.iter().any(is_part)) {
        hparams = without_predicted(hparams, MTP_LAYERS, predicted);
        stated = None;
    }
    let predicted = stated.unwrap_or_else(found);
    if predicted > MAX_PREDICTED {
        return Err(bad(MTP_LAYERS, &predicted.into(), "at most 1000"));
    }
    let all = trunk.saturating_add(predicted);
    let mut hparams = hparams.with("num_hidden_layers", all.into());
    hparams.derived.trunk_layers = Some(trunk);
    Ok(hparams)
}

/// The prediction's tensors as those of layers after the last.
pub fn rename(hparams: &Hparams, name: &str) -> Option<String> {
    let trunk = hparams.derived.trunk_layers?;
    let rest = name.strip_prefix("mtp.")?;
    if let Some((layer, rest)) = rest.strip_prefix("layers.").and_then(|rest| rest.split_once('.')) {
        return Some(format!("model.layers.{}.{rest}", trunk.checked_add(layer.parse().ok()?)?));
    }
    let (part, ending) = rest.split_once('.')?;
    // Tensors that exist once, whatever the number of MTP layers, go to the first.
    let part = match part {
        "fc" => "eh_proj",
        "pre_fc_norm_embedding" => "enorm",
        "pre_fc_norm_hidden" => "hnorm",
        "norm" => "shared_head.norm",
        _ => return None,
    };
    Some(format!("model.layers.{trunk}.{part}.{ending}"))
}

/// The inverse of [`rename`].
pub fn export_name(hparams: &Hparams, name: &str) -> Option<String> {
    let trunk = hparams.derived.trunk_layers?;
    let (layer, rest) = name.strip_prefix("model.layers.")?.split_once('.')?;
    let layer = layer.parse::<u64>().ok()?.checked_sub(trunk)?;
    Some(match rest.rsplit_once('.')? {
        ("eh_proj", ending) => format!("mtp.fc.{ending}"),
        ("enorm", ending) => format!("mtp.pre_fc_norm_embedding.{ending}"),
        ("hnorm", ending) => format!("mtp.pre_fc_norm_hidden.{ending}"),
        ("shared_head.norm", ending) => format!("mtp.norm.{ending}"),
        _ => format!("mtp.layers.{layer}.{rest}"),
    })
}

/// `Qwen3NextConfig`.
const QWEN3NEXT_CONFIG: ConfigClass = ConfigClass::new("qwen3_next").adjusted(config);

/// Every fourth layer has full attention, or as often as the config says.
pub fn config(map: &mut Map<String, Json>) -> Result<(), String> {
    if map.get("layer_types").is_some_and(|types| !types.is_null()) {
        return Ok(());
    }
    let interval = map.remove("full_attention_interval").and_then(|interval| interval.as_u64()).unwrap_or(4);
    if interval == 0 {
        return Err("`full_attention_interval` is 0".into());
    }
    adjust::layer_types(map, |layer| !(layer + 1).is_multiple_of(interval))?;
    // `layer_types` of this class says `linear_attention` for what the shared function calls sliding.
    for kind in map.get_mut("layer_types").and_then(Json::as_array_mut).into_iter().flatten() {
        if kind == "sliding_attention" {
            *kind = "linear_attention".into();
        }
    }
    Ok(())
}

pub fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    qwen2moe::keys(hparams, keys)?;
    keys.derived_from("ssm.inner_size", &["linear_value_head_dim"]);
    keys.derived_from("nextn_predict_layers", &["mtp_num_hidden_layers"]);
    let n_layers = hparams.n_layers()?;
    let trunk = hparams.derived.trunk_layers.unwrap_or(n_layers);
    let predicted = n_layers.saturating_sub(trunk);
    if predicted > 0 {
        keys.set_derived("nextn_predict_layers", "mtp_num_hidden_layers", predicted)?;
    }
    keys.needed("ssm.conv_kernel", hparams, &["linear_conv_kernel_dim"])?;
    keys.needed("ssm.state_size", hparams, &["linear_key_head_dim"])?;
    keys.needed("ssm.group_count", hparams, &["linear_num_key_heads"])?;
    keys.needed("ssm.time_step_rank", hparams, &["linear_num_value_heads"])?;
    let heads = hparams.need_u64(&["linear_num_value_heads"])?;
    // Names of the state space are used for the delta net: state = key length, rank = value heads,
    // groups = key heads.
    let inner = hparams.need_u64(&["linear_value_head_dim"])?.saturating_mul(heads);
    keys.set_derived("ssm.inner_size", "linear_num_value_heads", inner)?;
    if let Some(types) = hparams.get("layer_types") {
        let n_types = types.as_array().map_or(0, Vec::len) as u64;
        // The list is only for the trunk; the predicting layers have full attention.
        if n_types != trunk {
            return Err(bad("layer_types", types, "a type for each layer"));
        }
        let recurrent = (0..trunk + predicted).map(|bid| is_linear(hparams, bid)).collect();
        keys.set_prefixed("attention.recurrent_layers", Value::Array(Array::Bool(recurrent)));
    }
    let interval = hparams.get_u64("full_attention_interval")?.unwrap_or(4);
    keys.set_derived("full_attention_interval", "full_attention_interval", interval)?;
    let rotated = hparams.rotated(hparams.head_dim()?, Some(0.25))?;
    keys.set_derived("rope.dimension_count", "head_dim", rotated)
}
