//! Granite 4: state spaces and attention by layer, with and without experts; and Granite 4 without state spaces.
//!
//! Config keys: those of Granite's mixtures, those of the state spaces, key heads by layer. A model whose layers all
//! attend is written under the name of an older Granite.
//!
//! Transforms: those of Mamba 2 and of Granite's mixtures. Without experts, the shared one is the feed-forward part.
//!
//! Source: `GraniteHybridModel` in `conversion/granite.py`, for the config as it stands. The reference knows layers that
//! attend by the word `attention` alone; transformers 5 writes `full_attention`.

use crate::families::granite::convert::granitemoe;
use crate::families::mamba::convert::mamba::count_or;
use crate::prelude::*;

pub const GRANITEHYBRID: Arch = Arch {
    name: "granitehybrid",
    classes: &[Class::new("GraniteMoeHybridForCausalLM")],
    example: "ibm-granite/granite-4.0-h-tiny",
    configs: &[ConfigClass::new("granitemoehybrid")],
    raw_config: true,
    tensors: &[rules::DECODER_ENDS, rules::PRE_NORMS, STATE, ATTENTION, DENSE, EXPERTS, SHARED],
    keys: |hparams, keys| {
        granitemoe::keys(hparams, keys)?;
        state_keys(hparams, keys, inner_size(hparams)?)?;
        if rotates(hparams) {
            // The reference takes every model with state spaces for one without positions.
            keys.depart(&ROTATES, Value::Bool(true), Some(&Value::Bool(false)));
            keys.departs(&LENGTH);
        } else {
            without_rotation(keys)?;
        }
        Ok(())
    },
    rename: |hparams, name| {
        // Without experts, the shared one is the entire feed-forward part.
        (!has_experts(hparams)).then(|| name.replace(".shared_mlp.", ".mlp.")).filter(|new| new != name)
    },
    export_name: |hparams, _, name| (!has_experts(hparams)).then(|| name.replace(".mlp.", ".shared_mlp.")),
    vocab: Route::new("granite_hybrid", |writer| writer.rounded(Some(8), 8, true)),
    harmless: &["normalization_function=rmsnorm"],
    built_in: &[HAS_NO_STEP_LIMIT],
    from_file: |file, config| {
        let rotates = file.flag(ROTATES.subject) == Some(true);
        config.insert("position_embedding_type".into(), if rotates { "rope" } else { "nope" }.into());
    },
    ..DECODER
};

/// Granite 4 without state spaces and experts.
pub const GRANITE4: Arch = Arch {
    name: "granite4",
    written: Some("granite"),
    fits: Some(|input| all_attend(&input.config) && !chooses_experts(&input.config)),
    example: "ibm-granite/granite-4.0-1b",
    keys: dense_keys,
    // `time_step_limit` is an option of state spaces, which these models do not have.
    harmless: &["normalization_function=rmsnorm", "time_step_limit"],
    built_in: &[],
    vocab: Route::new("granite_dense", |writer| writer.rounded(Some(1), 8, true)),
    ..GRANITEHYBRID
};

/// Granite 4 without state spaces, with experts.
pub const GRANITE4_MOE: Arch = Arch {
    name: "granite4-moe",
    written: Some("granitemoe"),
    fits: Some(|input| all_attend(&input.config) && chooses_experts(&input.config)),
    ..GRANITE4
};

/// Tensors of state-space layers.
pub const STATE: &[TensorRule] = &[
    // A = -exp(A_log), one for each head: (heads) becomes (heads, 1).
    TensorRule::copy(&["model.layers.{bid}.mamba.A_log"], "blk.{bid}.ssm_a")
        .bare("")
        .shape(rules::COLUMN)
        .element(ElementMap::MinusExp)
        .need(IS_STATE),
    TensorRule::copy(&["model.layers.{bid}.mamba.D"], "blk.{bid}.ssm_d")
        .bare("")
        .shape(rules::COLUMN)
        .need(IS_STATE),
    TensorRule::copy(&["model.layers.{bid}.mamba.dt_bias"], "blk.{bid}.ssm_dt").bare(".bias").need(IS_STATE),
    // (channels, 1, kernel) becomes (channels, kernel).
    TensorRule::copy(&["model.layers.{bid}.mamba.conv1d"], "blk.{bid}.ssm_conv1d")
        .shape(rules::SQUEEZE_CHANNEL)
        .need(IS_STATE),
    TensorRule::copy(&["model.layers.{bid}.mamba.in_proj"], "blk.{bid}.ssm_in").need(IS_STATE),
    TensorRule::copy(&["model.layers.{bid}.mamba.norm"], "blk.{bid}.ssm_norm").shape(BY_GROUP).need(IS_STATE),
    TensorRule::copy(&["model.layers.{bid}.mamba.out_proj"], "blk.{bid}.ssm_out").need(IS_STATE),
];

/// llama.cpp normalizes by group: (inner) becomes (groups, inner / groups).
pub const BY_GROUP: Reshape = Reshape {
    forward: |hparams, dims| {
        let groups = count_or(hparams, GROUPS, 1)?;
        // Fastest dimension first: rows of inner / groups elements, one for each group.
        Ok(vec![dims.iter().product::<u64>() / groups, groups])
    },
    inverse: rules::flat,
};

/// Tensors of attention layers.
pub const ATTENTION: &[TensorRule] = &[
    // Rows are permuted in all layers, also without rotation.
    TensorRule::copy(&["model.layers.{bid}.self_attn.q_proj"], "blk.{bid}.attn_q")
        .rows(RowRule::PermuteQ)
        .need(ATTENDS),
    TensorRule::copy(&["model.layers.{bid}.self_attn.k_proj"], "blk.{bid}.attn_k")
        .rows(RowRule::PermuteK)
        .need(ATTENDS),
    TensorRule::copy(&["model.layers.{bid}.self_attn.v_proj"], "blk.{bid}.attn_v").need(ATTENDS),
    TensorRule::copy(&["model.layers.{bid}.self_attn.o_proj"], "blk.{bid}.attn_output").need(ATTENDS),
];

const EXPERTS: &[TensorRule] = &granitemoe::experts(Need::Experts);

const SHARED: &[TensorRule] = &granitemoe::shared(Need::Experts);

const DENSE: &[TensorRule] = &[
    // (2 f, in): gate above up.
    TensorRule::part(&["model.layers.{bid}.mlp.input_linear"], "blk.{bid}.ffn_gate", rules::first_half)
        .need(Need::Dense),
    TensorRule::part(&["model.layers.{bid}.mlp.input_linear"], "blk.{bid}.ffn_up", rules::second_half)
        .need(Need::Dense),
    TensorRule::copy(&["model.layers.{bid}.mlp.output_linear"], "blk.{bid}.ffn_down").need(Need::Dense),
];

const ATTENDS: Need = Need::If(attends);
const IS_STATE: Need = Need::If(|hparams, bid| !attends(hparams, bid));

/// True for an attention layer; all others are state-space layers.
pub fn attends(hparams: &Hparams, bid: u64) -> bool {
    layer_attends(|key| hparams.get(key), bid)
}

/// True for an attention layer, by a list of kinds, by a list of attention layers, or by a period.
fn layer_attends<'a>(get: impl Fn(&str) -> Option<&'a Json>, bid: u64) -> bool {
    let list = |key: &str| get(key).and_then(Json::as_array).filter(|list| !list.is_empty());
    // The first that exists wins: a kind for each layer, numbers of layers, a period.
    if let Some(kinds) = list("layer_types").or_else(|| list("layers_block_type")) {
        let kind = usize::try_from(bid).ok().and_then(|bid| kinds.get(bid));
        return kind.is_some_and(|kind| kind == "attention" || kind == "full_attention");
    }
    if let Some(layers) = list("attn_layer_indices") {
        return layers.contains(&bid.into());
    }
    let count = |key: &str| get(key).and_then(Json::as_u64);
    match (count("attn_layer_period"), count("attn_layer_offset")) {
        (Some(period), Some(offset)) => period > 0 && bid % period == offset,
        _ => false,
    }
}

/// True if all layers of a config are attention layers.
fn all_attend(config: &Json) -> bool {
    let n_layers = text_key(config, "num_hidden_layers").and_then(Json::as_u64).unwrap_or(0);
    n_layers > 0 && (0..n_layers.min(10_000)).all(|bid| layer_attends(|key| text_key(config, key), bid))
}

/// True if a router chooses experts per token.
fn chooses_experts(config: &Json) -> bool {
    text_key(config, "num_experts_per_tok").and_then(Json::as_u64).is_some_and(|count| count > 0)
}

fn has_experts(hparams: &Hparams) -> bool {
    hparams.n_experts().unwrap_or(0) > 0
}

/// Names of the number of groups. `find_hparam` looks for every name also with `mamba_` in front.
const GROUPS: &[&str] = &["n_groups", "num_groups", "mamba_n_groups", "mamba_num_groups"];

/// The inner size of the state spaces.
fn inner_size(hparams: &Hparams) -> Result<u64, ArchError> {
    let expand = hparams.need_u64(&["expand", "num_heads", "mamba_expand"])?;
    Ok(expand.saturating_mul(hparams.need_u64(&["hidden_size", "d_model"])?))
}

fn dense_keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    granitemoe::keys(hparams, keys)?;
    state_keys(hparams, keys, inner_size(hparams)?)?;
    // The reference takes every model without state spaces for one that rotates.
    keys.depart(&ROTATES, Value::Bool(rotates(hparams)), Some(&Value::Bool(true)));
    Ok(())
}

/// True if attention rotates, for which llama.cpp has this switch.
pub const ROTATES: Departure = Departure {
    subject: "rope.scaling.finetuned",
    files: "`granitehybrid`, `granite`, `granitemoe`",
    reason: "true only if `position_embedding_type` of the config is `rope`, the switch for rotation in llama.cpp",
};

/// Context length of a model that rotates.
pub const LENGTH: Departure = Departure { subject: "context_length", files: "`granitehybrid`", ..ROTATES };

fn rotates(hparams: &Hparams) -> bool {
    hparams.get("position_embedding_type").is_some_and(|kind| kind == "rope")
}

/// States that attention does not rotate. Without positions the context is not limited.
pub fn without_rotation(keys: &mut Keys) -> Result<(), ArchError> {
    keys.set_prefixed(ROTATES.subject, Value::Bool(false));
    keys.set_derived("context_length", "", 1 << 20)
}

/// Keys of the state spaces, and which layers attend.
pub fn state_keys(hparams: &Hparams, keys: &mut Keys, inner: u64) -> Result<(), ArchError> {
    keys.needed("ssm.conv_kernel", hparams, &["conv_kernel", "d_conv", "mamba_d_conv"])?;
    keys.needed(
        "ssm.state_size",
        hparams,
        &["state_size", "d_state", "state_dim", "ssm_state_size", "mamba_d_state"],
    )?;
    keys.derived_from("ssm.group_count", &["n_groups", "mamba_n_groups"]);
    keys.set_derived("ssm.group_count", "", hparams.need_u64(GROUPS)?)?;
    keys.derived_from("ssm.inner_size", &["mamba_expand", "mamba_head_dim"]);
    keys.set_derived("ssm.inner_size", "", inner)?;
    // In Mamba 2 this is the number of heads, each of which has one time step.
    let heads = &["n_heads", "num_heads", "mamba_n_heads", "mamba_num_heads"];
    keys.needed("ssm.time_step_rank", hparams, heads)?;
    keys.derived_from("rope.dimension_count", &["attn_rotary_emb"]);
    if let Some(rotated) = hparams.get_u64("attn_rotary_emb")?.filter(|rotated| *rotated > 0) {
        keys.set_derived("rope.dimension_count", "attn_rotary_emb", rotated)?;
    }
    // llama.cpp makes a state space of layers with 0 key heads.
    let heads = to_i32("num_key_value_heads", &hparams.n_kv_heads()?.into())?;
    let n_layers = hparams.n_layers()?.min(10_000);
    let counts = (0..n_layers).map(|bid| if attends(hparams, bid) { heads } else { 0 }).collect();
    keys.set_prefixed("attention.head_count_kv", Value::Array(Array::I32(counts)));
    // inner = heads * head: a value that does not divide it is not a head length. The reference compares 64 if the config has
    // no `mamba_d_head`.
    match hparams.find(&["d_head", "mamba_d_head", "mamba_head_dim"]) {
        Some((key, head)) if head.as_u64().and_then(|head| inner.checked_rem(head)) != Some(0) => {
            Err(bad(key, head, "a divisor of the inner size"))
        }
        _ => Ok(()),
    }
}
