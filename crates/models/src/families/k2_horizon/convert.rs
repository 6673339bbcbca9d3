//! K2-Horizon: dense models, and mixtures of experts whose attention also routes its values through experts (MoVA).
//!
//! Config keys: those of every text model; groups of the norms; the rotated part of a head; experts, their weights and
//! the leading dense layers; value experts.
//!
//! Transforms: experts become one tensor, as do value experts.
//!
//! Source: `K2HorizonModel` in `conversion/k2_horizon.py` of llama.cpp build 11549, which is newer than the pinned one.

use std::collections::BTreeSet;

use crate::prelude::*;

pub const K2_HORIZON: Arch = Arch {
    name: "k2-horizon",
    classes: &[Class::new("K2HorizonForCausalLM")],
    example: "IFM/K2-Horizon-0.9B",
    tensors: &[
        rules::DECODER_ENDS,
        rules::PRE_NORMS,
        ATTENTION,
        QK_NORMS,
        GATE,
        &rules::gated_mlp(Need::If(|hparams, bid| !is_mixture(hparams, bid))),
        ROUTER,
        EXPERTS,
        &rules::shared_experts(Need::If(|hparams, bid| {
            is_mixture(hparams, bid) && count(hparams, "num_shared_experts", 0) > 0
        })),
    ],
    keys,
    built_in: &[
        BuiltIn::is("decoder_sparse_step", &["1"]),
        BuiltIn::unless("mlp_only_layers", "dense layers that precede all others", |hparams, layers| {
            let Some(layers) = layers.as_array() else { return true };
            let n_dense = leading_dense(hparams);
            layers.iter().all(|layer| layer.as_u64().is_some_and(|layer| layer < n_dense))
        }),
        // The model's code rotates pairs that are half a head apart, llama.cpp pairs that are half the rotated part apart.
        BuiltIn::unless("rope_head_dim", "pairs that are half the rotated part apart", |hparams, rotated| {
            rotated.is_null() || Some(rotated) == hparams.get("head_dim")
        }),
    ],
    harmless: &[
        "hidden_act=silu",
        "moe_gate_bias",
        "query_key_norm",
        "attention_gate_func",
        "mova_num_experts",
        "num_dense_layers",
    ],
    from_file,
    ..DECODER
};

/// In layers with value experts, a stack with a router replaces the matrix of values.
const ATTENTION: &[TensorRule] = &[
    TensorRule::copy(&["model.layers.{bid}.self_attn.q_proj"], "blk.{bid}.attn_q"),
    TensorRule::copy(&["model.layers.{bid}.self_attn.k_proj"], "blk.{bid}.attn_k"),
    TensorRule::copy(&["model.layers.{bid}.self_attn.o_proj"], "blk.{bid}.attn_output"),
    TensorRule::copy(&["model.layers.{bid}.self_attn.v_proj"], "blk.{bid}.attn_v")
        .need(Need::If(|hparams, bid| !is_routed(hparams, bid))),
    TensorRule::copy(&["model.layers.{bid}.self_attn.v_router.weight"], "blk.{bid}.attn_v_gate")
        .bare(".weight")
        .need(Need::If(is_routed)),
    TensorRule::copy(&["model.layers.{bid}.self_attn.v_router.bias"], "blk.{bid}.attn_v_gate")
        .bare(".bias")
        .need(Need::If(|hparams, bid| is_routed(hparams, bid) && has_router_bias(hparams))),
    TensorRule::copy(&["model.layers.{bid}.self_attn.v_experts.{xid}"], "blk.{bid}.attn_v_exps")
        .rows(RowRule::Fuse(n_value_experts))
        .need(Need::If(is_routed)),
];

/// Norms over each head, with weights for all heads.
const QK_NORMS: &[TensorRule] = &[
    TensorRule::copy(&["model.layers.{bid}.self_attn.q_norm"], "blk.{bid}.attn_q_norm")
        .need(Need::If(has_head_norms)),
    TensorRule::copy(&["model.layers.{bid}.self_attn.k_norm"], "blk.{bid}.attn_k_norm")
        .need(Need::If(has_head_norms)),
];

const GATE: &[TensorRule] = &[TensorRule::copy(
    &["model.layers.{bid}.self_attn.gate_proj", "model.layers.{bid}.self_attn.attn_gate_proj"],
    "blk.{bid}.attn_gate",
)
.need(Need::If(|hparams, _| hparams.get("attention_gate_func").is_some_and(|kind| !kind.is_null())))];

const ROUTER: &[TensorRule] = &[
    TensorRule::copy(&["model.layers.{bid}.mlp.gate.weight"], "blk.{bid}.ffn_gate_inp")
        .bare(".weight")
        .need(MIXES),
    // Only selects experts.
    TensorRule::copy(&["model.layers.{bid}.mlp.gate.bias"], "blk.{bid}.exp_probs_b")
        .bare(".bias")
        .need(Need::If(|hparams, bid| is_mixture(hparams, bid) && has_router_bias(hparams))),
];

const EXPERTS: &[TensorRule] = {
    let [gate, up, down] = rules::gate_up_down_experts(MIXES);
    &[down, gate, up]
};

const MIXES: Need = Need::If(is_mixture);

fn count(hparams: &Hparams, key: &str, default: u64) -> u64 {
    hparams.get(key).and_then(Json::as_u64).unwrap_or(default)
}

fn has_head_norms(hparams: &Hparams, _: u64) -> bool {
    hparams.get("query_key_norm").and_then(Json::as_bool).unwrap_or(false)
}

fn has_router_bias(hparams: &Hparams) -> bool {
    hparams.get("moe_gate_bias").and_then(Json::as_bool).unwrap_or(true)
}

/// The number of dense layers before the first mixture, like in `leading_dense_block_count`.
fn leading_dense(hparams: &Hparams) -> u64 {
    if let Some(stated) = hparams.get("num_dense_layers").and_then(Json::as_u64) {
        return stated;
    }
    let layers = hparams.get("mlp_only_layers").and_then(Json::as_array).map_or(&[][..], Vec::as_slice);
    let listed: BTreeSet<u64> = layers.iter().filter_map(Json::as_u64).collect();
    (0..).take_while(|bid| listed.contains(bid)).count() as u64
}

fn is_mixture(hparams: &Hparams, bid: u64) -> bool {
    count(hparams, "num_experts", 0) > 0 && bid >= leading_dense(hparams)
}

fn is_routed(hparams: &Hparams, bid: u64) -> bool {
    is_mixture(hparams, bid) && count(hparams, "mova_num_experts", 0) > 0
}

fn n_value_experts(hparams: &Hparams) -> usize {
    usize::try_from(count(hparams, "mova_num_experts", 0)).unwrap_or(0)
}

fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    text_keys(hparams, keys)?;
    keys.set_derived(
        "attention.group_norm_groups",
        "layernorm_num_groups",
        count(hparams, "layernorm_num_groups", 1),
    )?;
    keys.count("rope.dimension_count", hparams, &["rope_head_dim"])?;
    let is_normalized = hparams.get("norm_topk_prob").and_then(Json::as_bool).unwrap_or(false);
    if count(hparams, "num_experts", 0) > 0 {
        let length = hparams.need_u64(&["moe_intermediate_size"])?;
        let n_shared = count(hparams, "num_shared_experts", 0);
        keys.set_derived("expert_feed_forward_length", "moe_intermediate_size", length)?;
        keys.set_derived("leading_dense_block_count", "mlp_only_layers", leading_dense(hparams))?;
        keys.set_derived(
            "moe_every_n_layers",
            "decoder_sparse_step",
            count(hparams, "decoder_sparse_step", 1),
        )?;
        keys.set_derived("expert_shared_count", "num_shared_experts", n_shared)?;
        keys.set_prefixed("expert_weights_norm", Value::Bool(is_normalized));
        if n_shared > 0 {
            let length = length.saturating_mul(n_shared);
            keys.set_derived("expert_shared_feed_forward_length", "num_shared_experts", length)?;
        }
        keys.number("expert_weights_scale", hparams, &["router_scaling_factor"])?;
    }
    let (n_values, n_used) =
        (count(hparams, "mova_num_experts", 0), count(hparams, "mova_num_experts_per_tok", 0));
    if n_values > 0 && n_used > 0 {
        keys.set_derived("attention.value_expert_count", "mova_num_experts", n_values)?;
        keys.set_derived("attention.value_expert_used_count", "mova_num_experts_per_tok", n_used)?;
    }
    if n_used > n_values {
        let found = hparams.get("mova_num_experts_per_tok").cloned().unwrap_or_default();
        return Err(bad("mova_num_experts_per_tok", &found, "at most `mova_num_experts`"));
    }
    match hparams.get("attention_gate_func") {
        None | Some(Json::Null) => Ok(()),
        Some(kind) if kind == "softplus" => Ok(()),
        Some(kind) => Err(bad("attention_gate_func", kind, "softplus")),
    }
}

fn from_file(file: &FileKeys<'_>, config: &mut Map<String, Json>) {
    config.insert("query_key_norm".into(), file.shape("blk.0.attn_q_norm.weight").is_some().into());
    if file.shape("blk.0.attn_gate.weight").is_some() {
        config.insert("attention_gate_func".into(), "softplus".into());
    }
    let n_dense = file.count("leading_dense_block_count").unwrap_or(0);
    config.insert("mlp_only_layers".into(), (0..n_dense.min(10_000)).collect());
    for (name, key) in [
        ("num_experts", "expert_count"),
        ("num_shared_experts", "expert_shared_count"),
        ("moe_intermediate_size", "expert_feed_forward_length"),
        ("mova_num_experts", "attention.value_expert_count"),
        ("mova_num_experts_per_tok", "attention.value_expert_used_count"),
        ("layernorm_num_groups", "attention.group_norm_groups"),
        ("decoder_sparse_step", "moe_every_n_layers"),
        ("rope_head_dim", "rope.dimension_count"),
    ] {
        set(config, name, file.count(key));
    }
    config.remove("num_local_experts");
    let layer = file.count("block_count").unwrap_or(0).saturating_sub(1);
    config.insert(
        "moe_gate_bias".into(),
        file.shape(&format!("blk.{layer}.exp_probs_b.bias")).is_some().into(),
    );
    if let Some(is_normalized) = file.flag("expert_weights_norm") {
        config.insert("norm_topk_prob".into(), is_normalized.into());
    }
    if let Some(kind) = file.count("expert_gating_func") {
        config.insert("router_score_func".into(), if kind == 2 { "sigmoid" } else { "softmax" }.into());
        config.remove("score_function");
    }
    if let Some(scale) = file.number("expert_weights_scale") {
        config.insert("router_scaling_factor".into(), scale.into());
    }
}
