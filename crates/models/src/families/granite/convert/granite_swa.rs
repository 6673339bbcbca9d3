//! Granite with sliding windows, dense and mixtures of experts.
//!
//! Config keys: those of Granite, the window, which layers have it, which layers are rotated, the length of the shared
//! expert.
//!
//! Transforms: those of llama. Gate and up of the experts stay one tensor, as do the shared expert's.
//!
//! Source: `GraniteSWAModel` and `GraniteMoeSWAModel` in `conversion/granite.py`.

use crate::families::granite::convert::granite::{self, GRANITE};
use crate::families::granite::convert::granitemoe;
use crate::prelude::*;

pub const GRANITE_SWA: Arch = Arch {
    name: "granite_swa",
    classes: &[Class::new("GraniteSWAForCausalLM")],
    example: "ibm-granite/granite-swash-2b",
    configs: &[GRANITE_SWA_CONFIG],
    tensors: &[rules::DECODER_ENDS, rules::PRE_NORMS, rules::ATTENTION_PERMUTED, SINKS, rules::GATED_MLP],
    keys,
    from_file: |file, config| {
        // 0 if a layer is not rotated, whatever the name says.
        let rotated = file.flags("attention.rope_pattern");
        let rotated = rotated.map(|flags| flags.iter().map(|flag| u64::from(*flag)).collect::<Json>());
        config.extend(rotated.map(|rotated| ("no_rope_layers".to_owned(), rotated)));
    },
    ..GRANITE
};

pub const GRANITEMOE_SWA: Arch = Arch {
    name: "granitemoe_swa",
    written: Some("granite_swa"),
    classes: &[Class::new("GraniteMoeSWAForCausalLM")],
    example: "ibm-granite/granite-swash-3b-a600m",
    configs: &[GRANITEMOE_SWA_CONFIG],
    tensors: &[rules::DECODER_ENDS, rules::PRE_NORMS, rules::ATTENTION_PERMUTED, SINKS, EXPERTS],
    keys: |hparams, keys| {
        self::keys(hparams, keys)?;
        keys.derived_from("expert_shared_feed_forward_length", &["shared_intermediate_size"]);
        granitemoe::shared_keys(hparams, keys)
    },
    ..GRANITE_SWA
};

const SINKS: &[TensorRule] = &[TensorRule::copy(
    &["model.layers.{bid}.self_attn.sinks", "model.layers.{bid}.self_attn.sinks.weight"],
    "blk.{bid}.attn_sinks",
)
.bare(".weight")];

const EXPERTS: &[TensorRule] = &[
    TensorRule::copy(&["model.layers.{bid}.block_sparse_moe.router"], "blk.{bid}.ffn_gate_inp"),
    TensorRule::copy(
        &[
            // (experts, 2 f, hidden): gate and up in one, under either of two names
            "model.layers.{bid}.block_sparse_moe.experts.gate_up_proj",
            "model.layers.{bid}.block_sparse_moe.input_linear.weight",
        ],
        "blk.{bid}.ffn_gate_up_exps",
    )
    .bare(".weight"),
    TensorRule::copy(
        &[
            "model.layers.{bid}.block_sparse_moe.experts.down_proj",
            "model.layers.{bid}.block_sparse_moe.output_linear.weight",
        ],
        "blk.{bid}.ffn_down_exps",
    )
    .bare(".weight"),
    // Gate and up of the shared expert, which stay together under the name of up.
    TensorRule::copy(&["model.layers.{bid}.shared_mlp.input_linear"], "blk.{bid}.ffn_up_shexp")
        .need(granitemoe::HAS_SHARED),
    TensorRule::copy(&["model.layers.{bid}.shared_mlp.output_linear"], "blk.{bid}.ffn_down_shexp")
        .need(granitemoe::HAS_SHARED),
];

fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    granite::keys(hparams, keys)?;
    keys.set_derived(
        "attention.sliding_window",
        "sliding_window",
        hparams.get_u64("sliding_window")?.unwrap_or(128),
    )?;
    // Every fourth layer from the first on uses full attention.
    let n_layers = hparams.n_layers()?.min(10_000);
    let slides = hparams.sliding_layers().filter(|layers| !layers.is_empty());
    let slides = slides.unwrap_or_else(|| (0..n_layers).map(|layer| !layer.is_multiple_of(4)).collect());
    keys.set_prefixed("attention.sliding_window_pattern", Value::Array(Array::Bool(slides)));
    keys.derived_from("attention.rope_pattern", &["no_rope_layers"]);
    if let Some(Json::Array(rotated)) = hparams.get("no_rope_layers")
        && !rotated.is_empty()
    {
        // The list says which layers are rotated, whatever its name: 0 or false means not.
        let rotated = rotated.iter().map(|flag| flag.as_u64() != Some(0) && *flag != false).collect();
        keys.set_prefixed("attention.rope_pattern", Value::Array(Array::Bool(rotated)));
    }
    layer_bases(hparams, keys)
}

/// Layers without rotation.
pub const PATTERN: Departure = Departure {
    subject: "attention.rope_pattern",
    files: "`granite_swa` (saved by transformers 5)",
    reason: "layers whose base in `layer_rope_theta` is 0 are not rotated; the converter does not read the option",
};

/// Reads transformers' own spelling of layers without rotation: a base of 0.
fn layer_bases(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    let bases = hparams.get("layer_rope_theta").and_then(Json::as_array);
    let bases: Vec<f64> = bases.into_iter().flatten().filter_map(Json::as_f64).collect();
    let base = hparams.rope().f64_or("rope_theta", 10_000.0)?;
    if bases.iter().any(|other| *other != 0.0 && *other != base) {
        keys.warnings.push(
            "`layer_rope_theta` differs between layers, but no metadata key can store this: results will differ from transformers"
                .into(),
        );
    } else if bases.contains(&0.0) {
        let rotated = bases.iter().map(|base| *base != 0.0).collect();
        let theirs = keys.prefixed(PATTERN.subject).cloned();
        keys.depart(&PATTERN, Value::Array(Array::Bool(rotated)), theirs.as_ref());
    }
    Ok(())
}

/// `GraniteSWAConfig`.
const GRANITE_SWA_CONFIG: ConfigClass = ConfigClass::new("granite_swa")
    .adjusted(|map| adjust::layer_types(map, |layer| !layer.is_multiple_of(4)));

/// `GraniteMoeSWAConfig`.
const GRANITEMOE_SWA_CONFIG: ConfigClass =
    ConfigClass::new("granitemoe_swa").adjusted(GRANITE_SWA_CONFIG.adjust);
