//! Kimi K3, the text part: Kimi's delta attention with latent attention in some layers, residuals over several layers, a
//! mixture whose experts work in a narrower space.
//!
//! Config keys: those of every text model, which layers have latent attention, lengths of both kinds of attention, experts
//! and their width, the activation, how many layers share a residual.
//!
//! Transforms: those of DeepSeek 2 for latent layers and of GLM 5.3 Flash for the others; weight and projection of the
//! residuals' scores are multiplied. Experts become one tensor.
//!
//! Source: `KimiK3Model` in `conversion/kimi_k3.py`.

use crate::families::glm::convert::glm5_next;
use crate::parts::latent;
use crate::prelude::*;

pub const KIMI_K3: Arch = Arch {
    name: "kimi-k3",
    classes: &[Class::wrapper("KimiK3ForConditionalGeneration")],
    example: "moonshotai/Kimi-K3",
    configs: &[],
    needs: &["hidden_size", "num_hidden_layers", "num_attention_heads", "kv_lora_rank", "vocab_size"],
    tensors: &[
        rules::DECODER_ENDS,
        rules::PRE_NORMS,
        RESIDUALS,
        &glm5_next::delta_attention(is_delta),
        LATENT,
        &latent::latent(has_query_rank),
        WITHOUT_QUERY_RANK,
        &rules::gated_mlp(Need::If(|hparams, bid| !is_mixture(hparams, bid))),
        EXPERTS,
    ],
    keys,
    // The row is only for the text part.
    drops: |_, name| {
        ["vision_tower.", "mm_projector."]
            .iter()
            .any(|start| name.starts_with(start))
            .then_some("part of an image, sound or speech model")
    },
    vocab: ROUTE,
    export: Export::NotExportable("residual factors are folded into the weights"),
    ..DECODER
};

/// DeepSeek 2's tokenizer, whose texts end as the config says, at the end of a turn.
const ROUTE: Route = Route::new("kimi_k3", |writer| {
    writer.gpt2(&BpeStyle::GPT2)?;
    let config = writer.input.config;
    let text = text_config(config).and_then(|text| text.get("eos_token_id"));
    let id = text.or_else(|| config.get("eos_token_id")).and_then(Json::as_u64);
    if let Some(id) = id.and_then(|id| u32::try_from(id).ok()) {
        writer.set(token_keys::EOS_ID, id);
    }
    if !writer.has(token_keys::CHAT_TEMPLATE) {
        writer.note(NO_TEMPLATE);
    }
    Ok(())
});

/// Scores of what the residual stream takes over: a norm's weight times a projection of one row.
const RESIDUALS: &[TensorRule] = &[
    TensorRule::copy(
        // proj (norm * x) = (proj * norm) x: with a projection of one row both vectors, (hidden), become one.
        &["model.layers.{bid}.self_attention_res_norm", "model.layers.{bid}.self_attention_res_proj"],
        "blk.{bid}.attn_res_score",
    )
    .rows(RowRule::Combine(Combination::Product)),
    TensorRule::copy(
        &["model.layers.{bid}.mlp_res_norm", "model.layers.{bid}.mlp_res_proj"],
        "blk.{bid}.ffn_res_score",
    )
    .rows(RowRule::Combine(Combination::Product)),
    TensorRule::copy(&["model.output_attn_res_norm", "model.output_attn_res_proj"], "output_res_score")
        .rows(RowRule::Combine(Combination::Product)),
];

/// Gates, whose names are the same in both kinds of layers.
const LATENT: &[TensorRule] = &[
    TensorRule::copy(&["model.layers.{bid}.self_attn.g_proj"], "blk.{bid}.ssm_g").in_layers(is_delta),
    TensorRule::copy(&["model.layers.{bid}.self_attn.g_proj"], "blk.{bid}.attn_gate").in_layers(is_latent),
];

/// Latent attention of queries that have no rank.
const WITHOUT_QUERY_RANK: &[TensorRule] = &[
    TensorRule::copy(&["model.layers.{bid}.self_attn.q_proj"], "blk.{bid}.attn_q")
        .in_layers(has_no_query_rank),
    TensorRule::copy(&["model.layers.{bid}.self_attn.kv_a_proj_with_mqa"], "blk.{bid}.attn_kv_a_mqa")
        .in_layers(has_no_query_rank),
    TensorRule::copy(&["model.layers.{bid}.self_attn.kv_a_layernorm"], "blk.{bid}.attn_kv_a_norm")
        .in_layers(has_no_query_rank),
    TensorRule::transposed(
        // (heads (keys + values), rank): rows of keys of each head are transposed, (heads, rank, keys).
        &["model.layers.{bid}.self_attn.kv_b_proj"],
        "blk.{bid}.attn_k_b",
        latent::head_keys,
    )
    .in_layers(has_no_query_rank),
    TensorRule::part(
        // Rows of values of each head stay as they are, (heads, values, rank).
        &["model.layers.{bid}.self_attn.kv_b_proj"],
        "blk.{bid}.attn_v_b",
        latent::head_values,
    )
    .shape(latent::BY_HEAD)
    .in_layers(has_no_query_rank),
    TensorRule::copy(&["model.layers.{bid}.self_attn.o_proj"], "blk.{bid}.attn_output")
        .in_layers(has_no_query_rank),
];

const EXPERTS: &[TensorRule] = &[
    TensorRule::copy(&["model.layers.{bid}.block_sparse_moe.gate"], "blk.{bid}.ffn_gate_inp")
        .need(IS_MIXTURE),
    TensorRule::copy(
        &[
            // Two spellings: inside the router and next to it.
            "model.layers.{bid}.block_sparse_moe.gate.e_score_correction",
            "model.layers.{bid}.block_sparse_moe.e_score_correction",
        ],
        "blk.{bid}.exp_probs_b",
    )
    .need(Need::Optional),
    // A gated feed-forward part under other names: w1 is the gate, w3 goes up, w2 comes down.
    TensorRule::stack(&["model.layers.{bid}.block_sparse_moe.experts.{xid}.w1"], "blk.{bid}.ffn_gate_exps")
        .need(IS_MIXTURE),
    TensorRule::stack(&["model.layers.{bid}.block_sparse_moe.experts.{xid}.w2"], "blk.{bid}.ffn_down_exps")
        .need(IS_MIXTURE),
    TensorRule::stack(&["model.layers.{bid}.block_sparse_moe.experts.{xid}.w3"], "blk.{bid}.ffn_up_exps")
        .need(IS_MIXTURE),
    TensorRule::copy(
        &["model.layers.{bid}.block_sparse_moe.shared_experts.gate_proj"],
        "blk.{bid}.ffn_gate_shexp",
    )
    .need(HAS_SHARED),
    TensorRule::copy(
        &["model.layers.{bid}.block_sparse_moe.shared_experts.up_proj"],
        "blk.{bid}.ffn_up_shexp",
    )
    .need(HAS_SHARED),
    TensorRule::copy(
        &["model.layers.{bid}.block_sparse_moe.shared_experts.down_proj"],
        "blk.{bid}.ffn_down_shexp",
    )
    .need(HAS_SHARED),
    // To the space of the experts and back, and the norm between.
    TensorRule::copy(
        &["model.layers.{bid}.block_sparse_moe.routed_expert_down_proj"],
        "blk.{bid}.ffn_routed_down",
    )
    .need(IS_NARROW),
    TensorRule::copy(
        &["model.layers.{bid}.block_sparse_moe.routed_expert_up_proj"],
        "blk.{bid}.ffn_routed_up",
    )
    .need(IS_NARROW),
    TensorRule::copy(
        &["model.layers.{bid}.block_sparse_moe.routed_expert_norm"],
        "blk.{bid}.ffn_routed_norm",
    )
    .need(IS_NARROW),
];

const IS_MIXTURE: Need = Need::If(is_mixture);
const HAS_SHARED: Need = Need::If(|hparams, bid| {
    is_mixture(hparams, bid)
        && hparams.get("num_shared_experts").and_then(Json::as_u64).is_some_and(|count| count > 0)
});
const IS_NARROW: Need =
    Need::If(|hparams, bid| is_mixture(hparams, bid) && hparams.get("routed_expert_hidden_size").is_some());

fn is_mixture(hparams: &Hparams, bid: u64) -> bool {
    bid >= hparams.get("first_k_dense_replace").and_then(Json::as_u64).unwrap_or(0)
}

/// True if a layer has latent attention; the config counts layers from one.
fn is_latent(hparams: &Hparams, bid: u64) -> bool {
    let linear = hparams.get("linear_attn_config").and_then(|linear| linear.get("full_attn_layers"));
    let layers = linear.and_then(Json::as_array);
    layers.is_some_and(|layers| layers.iter().any(|layer| layer.as_u64() == bid.checked_add(1)))
}

fn is_delta(hparams: &Hparams, bid: u64) -> bool {
    !is_latent(hparams, bid)
}

fn has_query_rank(hparams: &Hparams, bid: u64) -> bool {
    is_latent(hparams, bid) && hparams.get("q_lora_rank").is_some()
}

fn has_no_query_rank(hparams: &Hparams, bid: u64) -> bool {
    is_latent(hparams, bid) && hparams.get("q_lora_rank").is_none()
}

fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    // Latent attention becomes attention with one, larger head.
    text_keys(&hparams.with("num_key_value_heads", 1.into()), keys)?;
    keys.vocab_size(hparams)?;
    let n_layers = hparams.n_layers()?;
    // A list by layer is built below: a count out of all reason must not become memory.
    if n_layers > 10_000 {
        return Err(bad("num_hidden_layers", &n_layers.into(), "at most 10000"));
    }
    // One head of keys in latent layers; 0 says that a layer has delta attention.
    let heads = (0..n_layers).map(|bid| i32::from(is_latent(hparams, bid))).collect();
    keys.set_prefixed("attention.head_count_kv", Value::Array(Array::I32(heads)));
    glm5_next::linear_keys(hparams, keys)?;
    keys.count("attention.q_lora_rank", hparams, &["q_lora_rank"])?;
    let rank = hparams.need_u64(&["kv_lora_rank"])?;
    let (plain, rotated) =
        (hparams.need_u64(&["qk_nope_head_dim"])?, hparams.need_u64(&["qk_rope_head_dim"])?);
    if !hparams.is_true("mla_use_nope") {
        let found = hparams.get("mla_use_nope").cloned().unwrap_or_default();
        return Err(bad(
            "mla_use_nope",
            &found,
            "true: latent attention of this architecture is not rotated",
        ));
    }
    keys.set_derived("attention.kv_lora_rank", "kv_lora_rank", rank)?;
    keys.set_derived("rope.dimension_count", "qk_rope_head_dim", rotated)?;
    // Cached per position: the latent vector (rank), which is also the values, then the part that all heads
    // share.
    keys.set_derived("attention.key_length", "kv_lora_rank", rank.saturating_add(rotated))?;
    keys.set_derived("attention.value_length", "kv_lora_rank", rank)?;
    // Per head after expansion: its own part, then the shared part.
    keys.set_derived("attention.key_length_mla", "qk_nope_head_dim", plain.saturating_add(rotated))?;
    keys.needed("attention.value_length_mla", hparams, &["v_head_dim"])?;
    keys.needed("expert_feed_forward_length", hparams, &["moe_intermediate_size"])?;
    keys.needed("expert_shared_count", hparams, &["num_shared_experts"])?;
    keys.needed("leading_dense_block_count", hparams, &["first_k_dense_replace"])?;
    keys.needed_number("expert_weights_scale", hparams, &["routed_scaling_factor"])?;
    keys.flag("expert_weights_norm", hparams, "moe_renormalize");
    // Requirements of the architecture; another router or activation is refused, not written wrongly.
    for (key, name) in [("moe_router_activation_func", "sigmoid"), ("hidden_act", "situ")] {
        let found = hparams.get(key).cloned().unwrap_or_default();
        if found != name {
            return Err(bad(key, &found, name));
        }
    }
    // 2 is sigmoid, the only one that passes the check above.
    keys.set_prefixed("expert_gating_func", Value::U32(2));
    keys.count("expert_latent_length", hparams, &["routed_expert_hidden_size"])?;
    keys.needed_number("activation.situ_beta", hparams, &["activation_situ_beta"])?;
    keys.needed_number("activation.situ_linear_beta", hparams, &["activation_situ_linear_beta"])?;
    keys.needed("attn_res.block_size", hparams, &["attn_res_block_size"])
}
