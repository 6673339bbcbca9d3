//! Laguna: a mixture of experts with a gate after attention, heads by layer and two kinds of layers.
//!
//! Config keys: those of every text model; heads by layer; experts and their weights; leading dense layers;
//! the rotated part of full and of sliding attention.
//!
//! Transforms: experts become one tensor.
//!
//! Source: `LagunaModel` in `conversion/laguna.py`.

use crate::prelude::*;

pub const LAGUNA: Arch = Arch {
    name: "laguna",
    classes: &[Class::new("LagunaForCausalLM")],
    example: "poolside/Laguna-XS.2",
    configs: &[LAGUNA_CONFIG],
    tensors: &[
        rules::DECODER_ENDS,
        rules::PRE_NORMS,
        rules::ATTENTION,
        rules::QK_NORMS,
        GATE,
        &rules::gated_mlp(Need::If(|hparams, bid| !is_mixture(hparams, bid))),
        EXPERTS,
        &rules::gate_up_down_experts(MIXES),
    ],
    keys,
    vocab: ROUTE,
    window_pattern: every_from_first(4),
    harmless: &["layer_types"],
    // llama.cpp rotates the same part in full layers as in the first layer.
    built_in: &[BuiltIn::unless(
        "layer_types",
        "the rotation of a first layer that attends to everything",
        |_, kinds| kinds.get(0).is_none_or(|kind| kind == "full_attention"),
    )],
    from_file,
    yarn: YarnScales::RotationOfFullLayers,
    ..DECODER
};

/// Byte-level BPE, template from its own file, the second eos as `eot`.
const ROUTE: Route = Route::new("laguna", |writer| {
    writer.gpt2(&BpeStyle { control: &["</assistant>"], ..BpeStyle::GPT2 })?;
    writer.own_template()?;
    let config = writer.input.config;
    if let Some(Json::Array(eos)) = config.get("eos_token_id") {
        let bos = config.get("bos_token_id");
        let extra = eos.iter().find(|eos| Some(*eos) != bos).and_then(Json::as_u64);
        if let Some(extra) = extra.and_then(|id| u32::try_from(id).ok()) {
            writer.set(token_keys::EOT_ID, extra);
        }
    }
    Ok(())
});

/// A gate for each head, or for each element.
const GATE: &[TensorRule] =
    &[TensorRule::copy(&["model.layers.{bid}.self_attn.g_proj"], "blk.{bid}.attn_gate")];

const EXPERTS: &[TensorRule] = &[
    TensorRule::copy(&["model.layers.{bid}.mlp.gate"], "blk.{bid}.ffn_gate_inp").need(MIXES),
    // Corrects the scores by which experts are chosen.
    TensorRule::copy(&["model.layers.{bid}.mlp.experts.e_score_correction"], "blk.{bid}.exp_probs_b")
        .need(Need::Optional),
    TensorRule::copy(&["model.layers.{bid}.mlp.shared_expert.gate_proj"], "blk.{bid}.ffn_gate_shexp")
        .need(MIXES),
    TensorRule::copy(&["model.layers.{bid}.mlp.shared_expert.up_proj"], "blk.{bid}.ffn_up_shexp").need(MIXES),
    TensorRule::copy(&["model.layers.{bid}.mlp.shared_expert.down_proj"], "blk.{bid}.ffn_down_shexp")
        .need(MIXES),
];

const MIXES: Need = Need::If(is_mixture);

fn is_mixture(hparams: &Hparams, bid: u64) -> bool {
    let kind = hparams.get("mlp_layer_types").and_then(|kinds| kinds.get(usize::try_from(bid).ok()?));
    // A layer that is not listed is dense.
    kind.is_some_and(|kind| kind != "dense")
}

fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    text_keys(hparams, keys)?;
    keys.vocab_size(hparams)?;
    keys.set_prefixed("attention.head_count", Value::Array(Array::I32(heads(hparams)?)));
    check_gates(hparams)?;
    if hparams.get_u64("sliding_window")?.is_some_and(|window| window > 0) {
        keys.count("attention.sliding_window", hparams, &["sliding_window"])?;
    }
    keys.needed("expert_feed_forward_length", hparams, &["moe_intermediate_size"])?;
    keys.needed("expert_shared_feed_forward_length", hparams, &["shared_expert_intermediate_size"])?;
    // Weights of the chosen experts always sum to one, and scores go through a sigmoid.
    keys.set_prefixed("expert_weights_norm", Value::Bool(true));
    keys.needed_number("expert_weights_scale", hparams, &["moe_routed_scaling_factor"])?;
    keys.set_prefixed("expert_gating_func", Value::U32(2));
    let n_layers = hparams.n_layers()?.min(10_000);
    let dense = (0..n_layers).take_while(|bid| !is_mixture(hparams, *bid)).count() as u64;
    keys.set_derived("leading_dense_block_count", "", dense)?;
    // rotated = factor * head_dim: by default half a head in full layers, a complete head in sliding ones.
    let head_dim = hparams.need_u64(&["head_dim"])?;
    keys.set_derived("rope.dimension_count", "head_dim", hparams.rotated(head_dim, Some(1.0))?)?;
    if let Some(sliding) = hparams.rope_sliding() {
        let rotated = sliding.f64_or("partial_rotary_factor", 1.0)? * head_dim as f64;
        keys.set_derived("rope.dimension_count_swa", "head_dim", rotated as u64)?;
    }
    Ok(())
}

/// Heads of each layer.
fn heads(hparams: &Hparams) -> Result<Vec<i32>, ArchError> {
    const KEY: &str = "num_attention_heads_per_layer";
    let n_layers = hparams.n_layers()?.min(10_000);
    let Some(heads) = hparams.get(KEY).filter(|heads| heads.as_array().is_none_or(|heads| !heads.is_empty()))
    else {
        let heads = to_i32("num_attention_heads", &hparams.n_heads()?.into())?;
        return Ok(vec![heads; n_layers as usize]);
    };
    match heads.as_array() {
        Some(list) if list.len() as u64 == n_layers => list.iter().map(|heads| to_i32(KEY, heads)).collect(),
        _ => Err(bad(KEY, heads, "an integer for each layer")),
    }
}

/// Statements about gates must agree: other programs read `gating` alone, and `true` as one gate per head.
fn check_gates(hparams: &Hparams) -> Result<(), ArchError> {
    let is_by_element = |kind: &Json| match kind.as_str().map(|kind| kind.replace('-', "_")).as_deref() {
        Some("per_element") => Ok(true),
        Some("per_head") => Ok(false),
        _ => Err(bad("gating", kind, "per-head or per-element")),
    };
    let stated = hparams.get("gating").cloned().unwrap_or_default();
    let types = hparams.get("gating_types").and_then(Json::as_array).map_or(&[][..], Vec::as_slice);
    let by_element = types.iter().map(is_by_element).collect::<Result<Vec<_>, _>>()?;
    match (&stated, by_element.contains(&true)) {
        // `true` is one gate for each head: no entry of the list may say otherwise.
        (Json::Bool(true), false) => Ok(()),
        (Json::String(_), any) => {
            if is_by_element(&stated)? || !any {
                Ok(())
            } else {
                Err(bad("gating", &stated, "per-element, as `gating_types` says"))
            }
        }
        _ if !types.is_empty() && !by_element.contains(&true) => Ok(()),
        _ => Err(bad("gating", &stated, "per-head or per-element")),
    }
}

/// Heads by layer, kinds of layers as llama.cpp's graph has them, gates by their rows.
fn from_file(file: &FileKeys<'_>, config: &mut Map<String, Json>) {
    if let Some(heads) = file.counts("attention.head_count") {
        set(config, "num_attention_heads", heads.first().copied());
        let rows = file.shape("blk.0.attn_gate.weight").map(|shape| shape.n_rows());
        let gating = if rows == heads.first().copied() { "per-head" } else { "per-element" };
        config.insert("gating".into(), gating.into());
        config.insert("num_attention_heads_per_layer".into(), heads.into());
    }
    // No key has the kinds: if there is a window, every fourth layer from the first on uses full attention.
    let has_window = file.has("attention.sliding_window");
    let slides: Vec<bool> = (0..file.n_layers()).map(|layer| has_window && layer % 4 != 0).collect();
    config.insert("layer_types".into(), kinds(&slides, ["sliding_attention", "full_attention"]));
    if !has_window {
        config.insert("sliding_window".into(), 0.into());
    }
    // The end of a turn is a second end of text, recognized as a token other than the config's.
    if let (Some(eos), Some(eot)) = (file.token_id("eos"), file.token_id("eot")) {
        config.insert("eos_token_id".into(), json!([eos, eot]));
        config.insert("bos_token_id".into(), eos.into());
    }
    file.rope_by_kind(config);
}

/// `LagunaConfig`.
const LAGUNA_CONFIG: ConfigClass = ConfigClass::new("laguna").adjusted(|map| {
        adjust::layer_types(map, |_| false)?;
        // The first layer is dense if the file does not say.
        let n_layers = adjust::count(map, "num_hidden_layers").filter(|n_layers| *n_layers <= 10_000);
        let n_layers = n_layers.ok_or("no number of layers below 10000")?;
        if map.get("mlp_layer_types").is_none_or(Json::is_null) {
            let kinds = (0..n_layers).map(|bid| if bid == 0 { "dense" } else { "sparse" }).collect();
            map.insert("mlp_layer_types".into(), kinds);
        }
        if map.get("rope_parameters").is_none_or(Json::is_null) {
            let rope = json!({
                "full_attention": {"rope_type": "default", "rope_theta": 500_000.0, "partial_rotary_factor": 0.5},
                "sliding_attention": {"rope_type": "default", "rope_theta": 10_000.0, "partial_rotary_factor": 1.0}
            });
            map.insert("rope_parameters".into(), rope);
        }
        Ok(())
    });
