//! Llama 4, the text part.
//!
//! Config keys: those of llama; `intermediate_size` is the length of an expert and
//! `intermediate_size_mlp` that of dense layers; how many layers apart mixtures are.
//!
//! Transforms: the experts are stored stacked and transposed, gate before up, which are
//! taken apart. Q and K stay as they are.
//!
//! Source: `Llama4Model` in `conversion/llama.py`.

use crate::families::gpt_oss::convert as gpt_oss;
use crate::families::llama::convert::llama;
use crate::prelude::*;
use gguf_layout::built_in::{context_length, is_zero_every};

pub const LLAMA4: Arch = Arch {
    name: "llama4",
    classes: &[Class::new("Llama4ForCausalLM"), Class::new("Llama4ForConditionalGeneration")],
    example: "unsloth/Llama-4-Scout-17B-16E-Instruct",
    configs: &[LLAMA4_TEXT_CONFIG, LLAMA4_CONFIG],
    tensors: &[rules::DECODER_ENDS, rules::PRE_NORMS, rules::ATTENTION, DENSE, EXPERTS, SHARED],
    keys,
    computed: llama::computed,
    prepare: |hparams, _| {
        // The reference renames them in `__init__`: `intermediate_size` is the length of an expert here.
        let (expert_key, dense_key) = ("intermediate_size", "intermediate_size_mlp");
        let lengths = (hparams.need_u64(&[expert_key])?, hparams.need_u64(&[dense_key])?);
        Ok(hparams.with("intermediate_size_moe", lengths.0.into()).with(expert_key, lengths.1.into()))
    },
    built_in: &[
        BuiltIn::unless("no_rope_layers", "no rotation in every fourth layer", |hparams, flags| {
            // Without chunks llama.cpp rotates all layers.
            let rotates = |flag: &Json| flag.as_u64() != Some(0);
            if has_chunks(hparams) {
                is_zero_every(4, flags)
            } else {
                flags.as_array().is_none_or(|flags| flags.iter().all(rotates))
            }
        }),
        // llama.cpp has these norms in Scout, and omits them in Maverick, which has 128 experts.
        BuiltIn::unless("use_qk_norm", "true unless there are 128 experts", |hparams, has_norms| {
            hparams.n_experts().is_ok_and(|count| *has_norms == Json::Bool(count != 128))
        }),
        BuiltIn::unless("attention_chunk_size", "8192", |hparams, size| {
            let size = size.as_u64().unwrap_or(u64::MAX);
            size == 8192 || size.min(8192) >= context_length(hparams) || !has_chunks(hparams)
        }),
    ],
    window_pattern: Some(WindowPattern {
        period: 4,
        full_first: false,
        layers: |hparams| {
            let kinds = hparams.get("layer_types")?.as_array()?;
            Some(kinds.iter().map(|kind| kind == "chunked_attention").collect())
        },
    }),
    ..DECODER
};

/// Returns true if some layers attend to chunks of the context.
fn has_chunks(hparams: &Hparams) -> bool {
    let kinds = hparams.get("layer_types").and_then(Json::as_array);
    kinds.is_none_or(|kinds| kinds.iter().any(|kind| kind != "full_attention"))
}

const DENSE: &[TensorRule] = &[
    TensorRule::copy(&["model.layers.{bid}.feed_forward.gate_proj"], "blk.{bid}.ffn_gate").need(IS_DENSE),
    TensorRule::copy(&["model.layers.{bid}.feed_forward.up_proj"], "blk.{bid}.ffn_up").need(IS_DENSE),
    TensorRule::copy(&["model.layers.{bid}.feed_forward.down_proj"], "blk.{bid}.ffn_down").need(IS_DENSE),
];

const EXPERTS: &[TensorRule] = &[
    TensorRule::copy(&["model.layers.{bid}.feed_forward.router"], "blk.{bid}.ffn_gate_inp").need(IS_MIXTURE),
    TensorRule::transposed(
        &["model.layers.{bid}.feed_forward.experts.gate_up_proj"],
        "blk.{bid}.ffn_gate_exps",
        |_, shape| Ok(gpt_oss::transposed(shape, half(shape, 0))),
    )
    .bare(".weight")
    .need(IS_MIXTURE),
    TensorRule::transposed(
        &["model.layers.{bid}.feed_forward.experts.gate_up_proj"],
        "blk.{bid}.ffn_up_exps",
        |_, shape| Ok(gpt_oss::transposed(shape, half(shape, 1))),
    )
    .bare(".weight")
    .need(IS_MIXTURE),
    TensorRule::transposed(
        &["model.layers.{bid}.feed_forward.experts.down_proj"],
        "blk.{bid}.ffn_down_exps",
        |_, shape| Ok(gpt_oss::transposed(shape, RowMap::Concat)),
    )
    .bare(".weight")
    .need(IS_MIXTURE),
];

const SHARED: &[TensorRule] = &[
    TensorRule::copy(
        &["model.layers.{bid}.feed_forward.shared_expert.gate_proj"],
        "blk.{bid}.ffn_gate_shexp",
    )
    .need(IS_MIXTURE),
    TensorRule::copy(&["model.layers.{bid}.feed_forward.shared_expert.up_proj"], "blk.{bid}.ffn_up_shexp")
        .need(IS_MIXTURE),
    TensorRule::copy(
        &["model.layers.{bid}.feed_forward.shared_expert.down_proj"],
        "blk.{bid}.ffn_down_shexp",
    )
    .need(IS_MIXTURE),
];

/// Half of the columns, which become the rows of a matrix.
pub fn half(shape: &Shape, part: u64) -> RowMap {
    // gate_up_proj (experts, width, 2 f): the first f columns are the gate, the others up. Transposed, they
    // are the rows 0 .. f and f .. 2f of each expert.
    let rows = shape.dim(0) / 2;
    RowMap::Groups { group: rows * 2, start: rows * part, rows, n_head: 0 }
}

const IS_MIXTURE: Need = Need::If(is_mixture);
const IS_DENSE: Need = Need::If(|hparams, bid| !is_mixture(hparams, bid));

/// True if a layer is a mixture: listed in the config, or the last of every few.
fn is_mixture(hparams: &Hparams, bid: u64) -> bool {
    // Scout: every layer (`interleave_moe_layer_step` 1); Maverick: every second one.
    if let Some(Json::Array(layers)) = hparams.get("moe_layers") {
        return layers.iter().any(|layer| layer.as_u64() == Some(bid));
    }
    let step = hparams.get("interleave_moe_layer_step").and_then(Json::as_u64).unwrap_or(1).max(1);
    (bid + 1).is_multiple_of(step)
}

/// `Llama4Config`.
const LLAMA4_CONFIG: ConfigClass =
    ConfigClass::new("llama4").adjusted(|map| adjust::text_config(map, &LLAMA4_TEXT_CONFIG));

/// `Llama4TextConfig`.
const LLAMA4_TEXT_CONFIG: ConfigClass = ConfigClass::new("llama4_text").adjusted(config);

/// Layers without rotation attend to everything, the others to chunks.
fn config(map: &mut Map<String, Json>) -> Result<(), String> {
    if map.get("layer_types").is_some_and(|types| !types.is_null()) {
        return Ok(());
    }
    // The list has 1 for layers that are rotated and 0 for those that are not, against its name.
    let listed = map.get("no_rope_layers").and_then(Json::as_array).filter(|layers| !layers.is_empty());
    let rotated: Option<Vec<bool>> =
        listed.map(|layers| layers.iter().map(|layer| layer.as_u64() != Some(0)).collect());
    let interval = adjust::count(map, "no_rope_layer_interval").unwrap_or(4);
    if interval == 0 {
        return Err("`no_rope_layer_interval` is 0".into());
    }
    adjust::layer_types(map, |layer| match &rotated {
        Some(rotated) => rotated.get(layer as usize).copied().unwrap_or(true),
        None => !(layer + 1).is_multiple_of(interval),
    })
}

fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    // For export: `prepare` has moved both values, so that they are read under other names than they
    // have in a file.
    keys.derived_from("feed_forward_length", &["intermediate_size_mlp"]);
    keys.derived_from("expert_feed_forward_length", &["intermediate_size"]);
    llama::keys(hparams, keys)?;
    keys.needed("interleave_moe_layer_step", hparams, &["interleave_moe_layer_step"])?;
    keys.needed("expert_feed_forward_length", hparams, &["intermediate_size_moe"])?;
    if let Some(Json::Array(types)) = hparams.get("layer_types")
        // No chunks: stated as a window of 0, because llama.cpp assumes chunks of 8192.
        && types.iter().all(|kind| kind == "full_attention")
    {
        keys.set_prefixed("attention.sliding_window", Value::U32(0));
    }
    Ok(())
}
