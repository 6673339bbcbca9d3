//! Qwen 3.5, 3.6 and 3.8, dense and mixtures, text parts: gated delta nets with full attention in every fourth layer.
//!
//! Config keys: those of Qwen 3 Next; sections of the rotated dimensions if the config lacks them; pooling of a dense model.
//!
//! Transforms: those of Qwen 3 Next, but that the projections of the linear attention are stored apart. Value heads are
//! stored by key head and tiled in the file, so that llama.cpp can repeat key heads instead of interleaving them: rows
//! of values, gates, alpha, beta, decay and of the convolution, and the columns of the output projection.
//!
//! Source: `Qwen3_5TextModel`, `Qwen3_5MoeTextModel`, `_LinearAttentionVReorderBase` and `_Qwen35MRopeMixin` in
//! `conversion/qwen.py`; pooling in that of llama.cpp build 11549, which is newer than the pinned one.

use crate::families::qwen::convert::qwen2moe;
use crate::families::qwen::convert::qwen3next::{self, IS_LINEAR};
use crate::prelude::*;

pub const QWEN35: Arch = Arch {
    name: "qwen35",
    classes: &[Class::new("Qwen3_5ForCausalLM"), Class::new("Qwen3_5ForConditionalGeneration")],
    example: "Qwen/Qwen3.5-9B",
    configs: &[TEXT_CONFIG, CONFIG],
    tensors: &[
        qwen3next::LAYERS,
        qwen3next::FULL_ATTENTION,
        LINEAR_ATTENTION,
        rules::GATED_MLP,
        qwen3next::PREDICTION,
    ],
    keys,
    rename: |hparams, name| qwen3next::rename(hparams, name.strip_prefix("model.").unwrap_or(name)),
    export_name: |hparams, _, name| qwen3next::export_name(hparams, name),
    prepare: qwen3next::prepare,
    harmless: &["rope_parameters.mrope_interleaved=true"],
    built_in: &[ROTATES_ALL_PAIRS],
    prediction: Some(qwen3next::PREDICTED_LAYERS),
    ..DECODER
};

pub const QWEN35MOE: Arch = Arch {
    name: "qwen35moe",
    classes: &[Class::new("Qwen3_5MoeForCausalLM"), Class::new("Qwen3_5MoeForConditionalGeneration")],
    example: "Qwen/Qwen3.5-35B-A3B",
    configs: &[MOE_TEXT_CONFIG, MOE_CONFIG],
    tensors: &[
        qwen3next::LAYERS,
        qwen3next::FULL_ATTENTION,
        LINEAR_ATTENTION,
        rules::QWEN_EXPERTS,
        rules::STACKED_EXPERTS,
        qwen2moe::SHARED_EXPERT,
        qwen3next::PREDICTION,
    ],
    needs: &["hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size"],
    built_in: &[NORMALIZES_EXPERTS, ROTATES_ALL_PAIRS],
    keys: shared_keys,
    ..QWEN35
};

/// The row of the inner model of a text part, which has no prediction.
///
/// Source: `Qwen3_5TextModel` in `conversion/qwen.py` of llama.cpp build 11549, which is newer than the pinned one.
pub const QWEN35_TEXT: Arch = Arch {
    name: "qwen35-text",
    written: Some("qwen35"),
    classes: &[Class::inner("Qwen3_5TextModel", "model.")],
    configs: &[],
    drops: |_, name| {
        let name = name.strip_prefix("model.").unwrap_or(name);
        name.starts_with("mtp.").then_some(drops::NO_PREDICTION)
    },
    prepare: |hparams, _| Ok(hparams.without("mtp_num_hidden_layers")),
    prediction: None,
    export: Export::NotExportable("exported as `Qwen3_5ForCausalLM`"),
    ..QWEN35
};

/// The row of MiniCPM-V 4.6 and later, whose text part is a dense one without a prediction.
pub const MINICPMV: Arch = Arch {
    name: "minicpmv",
    written: Some("qwen35"),
    classes: &[
        Class::new("MiniCPMV4_6ForConditionalGeneration"),
        Class::new("MiniCPMV4_7ForConditionalGeneration"),
        Class::new("MiniCPMOcrForConditionalGeneration"),
    ],
    example: "openbmb/MiniCPM-V-4_6",
    configs: &[],
    drops: |_, name| match name {
        _ if name.starts_with("model.merger.") => Some("part of an image, sound or speech model"),
        _ if name.starts_with("mtp") => Some(drops::NO_PREDICTION),
        _ => None,
    },
    prepare: |hparams, _| Ok(hparams.without("mtp_num_hidden_layers")),
    ..QWEN35
};

/// Linear attention, whose value heads are tiled.
pub const LINEAR_ATTENTION: &[TensorRule] = &[
    TensorRule::part(
        &["model.layers.{bid}.linear_attn.in_proj_qkv"],
        "blk.{bid}.attn_qkv",
        values_after_keys,
    )
    .need(IS_LINEAR),
    TensorRule::part(&["model.layers.{bid}.linear_attn.in_proj_z"], "blk.{bid}.attn_gate", |hparams, _| {
        Heads::of(hparams)?.tiled(0, |heads| heads.value_dim)
    })
    .need(IS_LINEAR),
    TensorRule::part(&["model.layers.{bid}.linear_attn.in_proj_b"], "blk.{bid}.ssm_beta", one_a_head)
        .need(IS_LINEAR),
    TensorRule::part(&["model.layers.{bid}.linear_attn.in_proj_a"], "blk.{bid}.ssm_alpha", one_a_head)
        .need(IS_LINEAR),
    TensorRule::part(&["model.layers.{bid}.linear_attn.conv1d"], "blk.{bid}.ssm_conv1d", |hparams, shape| {
        // (channels, 1, kernel): rows of the kernel's length, one a channel, channels as the rows of in_proj_qkv.
        values_after_keys(hparams, shape)
    })
    .shape(rules::SQUEEZE_CHANNEL)
    .need(IS_LINEAR),
    TensorRule::part(&["model.layers.{bid}.linear_attn.dt_bias"], "blk.{bid}.ssm_dt", one_a_head)
        .bare(".bias")
        .need(IS_LINEAR),
    TensorRule::part(&["model.layers.{bid}.linear_attn.A_log"], "blk.{bid}.ssm_a", one_a_head)
        .bare("")
        .element(ElementMap::MinusExp)
        .need(IS_LINEAR),
    TensorRule::copy(&["model.layers.{bid}.linear_attn.norm"], "blk.{bid}.ssm_norm").need(IS_LINEAR),
    TensorRule::part(&["model.layers.{bid}.linear_attn.out_proj"], "blk.{bid}.ssm_out", |hparams, _| {
        let Heads { groups, per_group, value_dim, .. } = Heads::of(hparams)?;
        Ok(match per_group {
            1 => RowMap::Concat,
            _ => RowMap::TileColumns { groups, per_group, elems: value_dim },
        })
    })
    .need(IS_LINEAR),
];

/// Heads of the linear attention.
struct Heads {
    /// Key heads.
    groups: u64,
    /// Value heads of each key head.
    per_group: u64,
    /// Elements of a key head.
    key_dim: u64,
    /// Elements of a value head.
    value_dim: u64,
}

impl Heads {
    fn of(hparams: &Hparams) -> Result<Heads, ArchError> {
        let groups = hparams.need_u64(&["linear_num_key_heads"])?;
        let heads = hparams.need_u64(&["linear_num_value_heads"])?;
        if groups == 0 || !heads.is_multiple_of(groups) || heads == 0 {
            return Err(bad("linear_num_value_heads", &heads.into(), "a multiple of linear_num_key_heads"));
        }
        let key_dim = hparams.need_u64(&["linear_key_head_dim"])?;
        let value_dim = hparams.need_u64(&["linear_value_head_dim"])?;
        Ok(Heads { groups, per_group: heads / groups, key_dim, value_dim })
    }

    /// Value heads from row `start` on, tiled.
    fn tiled(&self, start: u64, rows: fn(&Heads) -> u64) -> Result<RowMap, ArchError> {
        let (groups, per_group, rows) = (self.groups, self.per_group, rows(self));
        // One value head to a key head: both orders are the same.
        Ok(if per_group == 1 { RowMap::Concat } else { RowMap::TileHeads { start, groups, per_group, rows } })
    }
}

/// Rows of queries and keys, which stay, then those of values.
fn values_after_keys(hparams: &Hparams, _: &Shape) -> Result<RowMap, ArchError> {
    let heads = Heads::of(hparams)?;
    heads.tiled(heads.groups.saturating_mul(heads.key_dim).saturating_mul(2), |heads| heads.value_dim)
}

/// A row, or an element, for each value head.
fn one_a_head(hparams: &Hparams, _: &Shape) -> Result<RowMap, ArchError> {
    Heads::of(hparams)?.tiled(0, |_| 1)
}

/// Keys of a dense model.
pub fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    shared_keys(hparams, keys)?;
    pooling::keys(hparams, keys)
}

/// Keys of Qwen 3 Next, and sections.
pub fn shared_keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    qwen3next::keys(hparams, keys)?;
    if hparams.rope().get("mrope_section").is_none() {
        // Without images all sections count the same positions; these are those of every released model.
        keys.set_prefixed("rope.dimension_sections", Value::Array(Array::I32(vec![11, 11, 10, 0])));
    }
    Ok(())
}

/// `Qwen3_5TextConfig`.
pub const TEXT_CONFIG: ConfigClass = ConfigClass::new("qwen3_5_text").adjusted(qwen3next::config);

/// `Qwen3_5MoeTextConfig`.
const MOE_TEXT_CONFIG: ConfigClass = ConfigClass::new("qwen3_5_moe_text").adjusted(TEXT_CONFIG.adjust);

/// `Qwen3_5Config`: text and images.
const CONFIG: ConfigClass =
    ConfigClass::new("qwen3_5").adjusted(|map| adjust::text_config(map, &TEXT_CONFIG));

/// `Qwen3_5MoeConfig`.
const MOE_CONFIG: ConfigClass =
    ConfigClass::new("qwen3_5_moe").adjusted(|map| adjust::text_config(map, &MOE_TEXT_CONFIG));
