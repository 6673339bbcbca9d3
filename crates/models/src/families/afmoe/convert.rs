//! Trinity (AFMoE): mixtures of experts with gated attention and norms before and after each part.
//!
//! Config keys: those of llama, experts and their weights, leading dense layers, `sliding_window`.
//!
//! Transforms: experts become one tensor.
//!
//! Source: `AfmoeModel` in `conversion/afmoe.py`.

use crate::families::llama::convert::llama;
use crate::families::llama::convert::vocab;
use crate::prelude::*;

pub const AFMOE: Arch = Arch {
    name: "afmoe",
    classes: &[Class::new("AfmoeForCausalLM")],
    example: "arcee-ai/Trinity-Mini",
    configs: &[AFMOE_CONFIG],
    tensors: &[
        rules::DECODER_ENDS,
        NORMS,
        rules::ATTENTION,
        rules::QK_NORMS,
        &rules::gated_mlp(Need::If(|hparams, bid| !is_mixture(hparams, bid))),
        ROUTER,
        &rules::gate_up_down_experts(IS_MIXTURE),
        &rules::shared_experts(Need::If(|hparams, bid| {
            is_mixture(hparams, bid) && hparams.get("num_shared_experts").is_some_and(|count| *count != 0)
        })),
    ],
    keys,
    computed: llama::computed,
    vocab: vocab::ROUTE,
    window_pattern: every(4),
    harmless: &["layer_types"],
    built_in: &[BuiltIn::is("mup_enabled", &["true"])],
    ..DECODER
};

const NORMS: &[TensorRule] = &[
    TensorRule::copy(&["model.layers.{bid}.input_layernorm"], "blk.{bid}.attn_norm"),
    // After attention, as it says; in llama this name is that of the norm before the feed-forward part.
    TensorRule::copy(&["model.layers.{bid}.post_attention_layernorm"], "blk.{bid}.post_attention_norm"),
    TensorRule::copy(&["model.layers.{bid}.pre_mlp_layernorm"], "blk.{bid}.ffn_norm"),
    TensorRule::copy(&["model.layers.{bid}.post_mlp_layernorm"], "blk.{bid}.post_ffw_norm"),
    TensorRule::copy(&["model.layers.{bid}.self_attn.gate_proj"], "blk.{bid}.attn_gate"),
];

const ROUTER: &[TensorRule] = &[
    TensorRule::copy(&["model.layers.{bid}.mlp.router.gate"], "blk.{bid}.ffn_gate_inp").need(IS_MIXTURE),
    TensorRule::copy(&["model.layers.{bid}.mlp.expert_bias"], "blk.{bid}.exp_probs_b")
        .bare(".bias")
        .need(Need::Optional),
];

const IS_MIXTURE: Need = Need::If(is_mixture);

/// All but the first few layers are mixtures.
fn is_mixture(hparams: &Hparams, bid: u64) -> bool {
    bid >= hparams.get("num_dense_layers").and_then(Json::as_u64).unwrap_or(0)
}

fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    llama::keys(hparams, keys)?;
    keys.count("expert_shared_count", hparams, &["num_shared_experts"])?;
    keys.count("expert_feed_forward_length", hparams, &["moe_intermediate_size"])?;
    keys.count("leading_dense_block_count", hparams, &["num_dense_layers"])?;
    keys.derived_from("expert_weights_norm", &["route_norm"]);
    // The class of transformers normalizes weights always, and saves no such key.
    let is_normed = hparams.get("route_norm") != Some(&Json::Bool(false));
    let theirs = hparams.get("route_norm").map(|_| Value::Bool(is_normed));
    keys.depart(&NORM, Value::Bool(is_normed), theirs.as_ref());
    keys.number("expert_weights_scale", hparams, &["route_scale"])?;
    keys.count("attention.sliding_window", hparams, &["sliding_window"])
}

/// Normalization of expert weights.
pub const NORM: Departure = Departure {
    subject: "expert_weights_norm",
    files: "`afmoe`",
    reason: "the class of transformers normalizes weights and saves no `route_norm`; without the key llama.cpp does not normalize",
};

/// `AfmoeConfig`.
const AFMOE_CONFIG: ConfigClass = ConfigClass::new("afmoe").adjusted(|map| {
    let period = adjust::count(map, "global_attn_every_n_layers").filter(|period| *period > 0);
    let period = period.ok_or("`global_attn_every_n_layers` is 0")?;
    // At a period of 4 layers 3, 7, 11, ... attend to all, and the others have the window.
    adjust::layer_types(map, |layer| !(layer + 1).is_multiple_of(period))
});
