//! Decoders with multi-head latent attention and a mixture of experts.
//!
//! Config keys: those of every text model with one key head (latent attention becomes attention with
//! one, larger head), ranks and lengths of the latent attention, experts and their weights.
//!
//! Transforms: `kv_b_proj` is taken apart; its keys are transposed, head by head. Experts become one
//! tensor. Layers of multi-token prediction are left out, as is an output that is tied.
//!
//! Source: `DeepseekV2Model` in `conversion/deepseek.py`.

use crate::prelude::*;

/// A row without name and classes.
pub const LATENT: Arch = Arch {
    needs: &["hidden_size", "num_hidden_layers", "num_attention_heads", "kv_lora_rank", "vocab_size"],
    tensors: &[
        rules::DECODER_ENDS,
        rules::PRE_NORMS,
        ATTENTION,
        &rules::gated_mlp(Need::If(|hparams, bid| !is_mixture(hparams, bid))),
        &rules::qwen_experts(Need::If(is_mixture)),
        &rules::shared_experts(Need::If(has_shared)),
        CORRECTION,
    ],
    keys,
    drops: |hparams, name| drop_tied(hparams, name).or_else(|| drop_mtp(hparams, name)),
    vocab: ROUTE,
    harmless: &["rope_parameters.mscale"],
    built_in: &[
        BuiltIn::unless("num_experts_per_tok", "experts of the chosen groups only", |hparams, used| {
            let count = |key: &str| hparams.get(key).and_then(Json::as_u64).unwrap_or(0);
            let of_group = count("n_routed_experts").checked_div(count("n_group")).unwrap_or(u64::MAX);
            let chosen = of_group.saturating_mul(count("topk_group"));
            count("n_group") < 2 || used.as_u64().is_none_or(|used| used <= chosen)
        }),
        // DeepSeek 2 rates a group by its best expert.
        BuiltIn::unless("topk_method", "groups rated by their best two experts", |hparams, method| {
            method != "group_limited_greedy"
                || hparams.get("n_group").and_then(Json::as_u64).is_none_or(|groups| groups < 2)
        }),
        // The class of DeepSeek 2 does not read the option.
        BuiltIn::unless(
            "norm_topk_prob",
            "normalized expert weights, which transformers does not normalize",
            |hparams, norm| {
                *norm != Json::Bool(true)
                    || hparams.get("model_type").is_none_or(|kind| kind != "deepseek_v2")
            },
        ),
    ],
    ..DECODER
};

/// Byte-level BPE, else Kimi's tiktoken file.
pub const ROUTE: Route = Route { name: "deep_seek2", ..Route::GPT2 };

/// Latent attention.
pub const ATTENTION: &[TensorRule] = &[
    TensorRule::copy(&["model.layers.{bid}.self_attn.q_proj"], "blk.{bid}.attn_q")
        .need(Need::If(|hparams, _| hparams.get("q_lora_rank").is_none())),
    TensorRule::copy(&["model.layers.{bid}.self_attn.q_a_proj"], "blk.{bid}.attn_q_a").need(HAS_Q_RANK),
    TensorRule::copy(&["model.layers.{bid}.self_attn.q_a_layernorm"], "blk.{bid}.attn_q_a_norm")
        .need(HAS_Q_RANK),
    TensorRule::copy(&["model.layers.{bid}.self_attn.q_b_proj"], "blk.{bid}.attn_q_b").need(HAS_Q_RANK),
    TensorRule::copy(&["model.layers.{bid}.self_attn.kv_a_proj_with_mqa"], "blk.{bid}.attn_kv_a_mqa"),
    TensorRule::copy(&["model.layers.{bid}.self_attn.kv_a_layernorm"], "blk.{bid}.attn_kv_a_norm"),
    TensorRule::transposed(&["model.layers.{bid}.self_attn.kv_b_proj"], "blk.{bid}.attn_k_b", head_keys),
    TensorRule::part(&["model.layers.{bid}.self_attn.kv_b_proj"], "blk.{bid}.attn_v_b", head_values)
        .shape(BY_HEAD),
    TensorRule::copy(&["model.layers.{bid}.self_attn.o_proj"], "blk.{bid}.attn_output"),
];

/// Latent attention whose queries have a rank too, in some of the layers.
pub const fn latent(layers: InLayers) -> [TensorRule; 8] {
    [
        TensorRule::copy(&["model.layers.{bid}.self_attn.q_a_proj"], "blk.{bid}.attn_q_a").in_layers(layers),
        TensorRule::copy(&["model.layers.{bid}.self_attn.q_a_layernorm"], "blk.{bid}.attn_q_a_norm")
            .in_layers(layers),
        TensorRule::copy(&["model.layers.{bid}.self_attn.q_b_proj"], "blk.{bid}.attn_q_b").in_layers(layers),
        TensorRule::copy(&["model.layers.{bid}.self_attn.kv_a_proj_with_mqa"], "blk.{bid}.attn_kv_a_mqa")
            .in_layers(layers),
        TensorRule::copy(&["model.layers.{bid}.self_attn.kv_a_layernorm"], "blk.{bid}.attn_kv_a_norm")
            .in_layers(layers),
        TensorRule::transposed(&["model.layers.{bid}.self_attn.kv_b_proj"], "blk.{bid}.attn_k_b", head_keys)
            .in_layers(layers),
        TensorRule::part(&["model.layers.{bid}.self_attn.kv_b_proj"], "blk.{bid}.attn_v_b", head_values)
            .shape(BY_HEAD)
            .in_layers(layers),
        TensorRule::copy(&["model.layers.{bid}.self_attn.o_proj"], "blk.{bid}.attn_output").in_layers(layers),
    ]
}

const HAS_Q_RANK: Need = Need::If(|hparams, _| hparams.get("q_lora_rank").is_some());

/// Bias that is added to the experts' scores before the choice.
pub const CORRECTION: &[TensorRule] =
    &[TensorRule::copy(&["model.layers.{bid}.mlp.gate.e_score_correction"], "blk.{bid}.exp_probs_b")
        .need(Need::Optional)];

/// A dimension for the heads, whose rows follow each other.
pub const BY_HEAD: Reshape = Reshape {
    forward: |hparams, dims| {
        // Rows of values of all heads, concatenated: (heads * values, rank) becomes (heads,
        // values, rank).
        let (_, values) = head_rows(hparams)?;
        let rows = dims.iter().skip(1).product::<u64>();
        Ok(vec![dims.first().copied().unwrap_or(0), values, rows / values.max(1)])
    },
    inverse: rules::flat_rows,
};

/// Rows of a head in `kv_b_proj`: of its keys, and of its values.
fn head_rows(hparams: &Hparams) -> Result<(u64, u64), ArchError> {
    Ok((hparams.need_u64(&["qk_nope_head_dim"])?, hparams.need_u64(&["v_head_dim"])?))
}

/// Keys of the heads, transposed.
///
/// # Errors
///
/// [`ArchError::MissingKey`], [`ArchError::BadKey`].
pub fn head_keys(hparams: &Hparams, _: &Shape) -> Result<Transposed, ArchError> {
    // kv_b_proj (rank -> heads * (keys + values)) holds, head after head, W_uk (keys rows) and W_uv (values rows).
    // llama.cpp multiplies the queries by W_uk transposed instead of expanding the keys (absorbed latent attention):
    //   attn_k_b (heads, rank, keys)  = W_uk of each head, transposed
    //   attn_v_b (heads, values, rank) = W_uv of each head
    let (keys, values) = head_rows(hparams)?;
    let matrix = Matrix { group: keys.saturating_add(values), start: 0 };
    Ok(Transposed { matrix, rows: keys, columns: RowMap::Concat })
}

/// Values of the heads.
///
/// # Errors
///
/// [`ArchError::MissingKey`], [`ArchError::BadKey`].
pub fn head_values(hparams: &Hparams, _: &Shape) -> Result<RowMap, ArchError> {
    let (keys, values) = head_rows(hparams)?;
    Ok(RowMap::Groups { group: keys.saturating_add(values), start: keys, rows: values, n_head: 0 })
}

/// True if the feed-forward part of a layer is a mixture: all but the first few are.
pub fn is_mixture(hparams: &Hparams, bid: u64) -> bool {
    // The first `first_k_dense_replace` layers are dense; every `moe_layer_freq`-th of the rest is a mixture
    // (all, in every release).
    let count = |key| hparams.get(key).and_then(Json::as_u64);
    hparams.get("n_routed_experts").is_some()
        && bid >= count("first_k_dense_replace").unwrap_or(0)
        && bid.is_multiple_of(count("moe_layer_freq").unwrap_or(1).max(1))
}

/// True if a layer has a shared expert.
pub fn has_shared(hparams: &Hparams, bid: u64) -> bool {
    is_mixture(hparams, bid)
        && hparams.get("n_shared_experts").and_then(Json::as_u64).is_some_and(|count| count > 0)
}

/// An output that is tied to the embedding is left out.
pub fn drop_tied(hparams: &Hparams, name: &str) -> Option<&'static str> {
    let is_output = ["lm_head.weight", "model.lm_head.weight"].contains(&name);
    (is_output && hparams.is_true("tie_word_embeddings")).then_some(drops::TIED)
}

/// Layers after the last one predict several tokens at once.
pub fn drop_mtp(hparams: &Hparams, name: &str) -> Option<&'static str> {
    let (layer, _) = name.strip_prefix("model.layers.")?.split_once('.')?;
    // V3 has one layer beyond `num_hidden_layers` that predicts the token after the next; llama.cpp has
    // no use for it in this architecture.
    let is_after = layer.parse::<u64>().ok()? >= hparams.n_layers().ok()?;
    is_after.then_some(drops::NO_PREDICTION)
}

/// The rotated part of a head is what the class calls its size.
pub fn rotated_part(map: &mut Map<String, Json>) -> Result<(), String> {
    let rotated = map.get("qk_rope_head_dim").cloned().unwrap_or(Json::Null);
    map.insert("head_dim".into(), rotated);
    Ok(())
}

/// Keys of every text model with one key head, plus those of latent attention and experts.
///
/// # Errors
///
/// [`ArchError::MissingKey`], [`ArchError::BadKey`].
pub fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    // With absorbed matrices all heads share one key and value, the compressed vector c and the rotated part:
    //   key_length = kv_lora_rank + qk_rope_head_dim,  value_length = kv_lora_rank,  head_count_kv = 1
    // The lengths before compression are kept as key_length_mla and value_length_mla.
    let mut one_head = hparams.with("num_key_value_heads", 1.into());
    // `set_gguf_parameters` has its own default here, for V2 configs without the key.
    if hparams.get("rms_norm_eps").is_none() {
        one_head = one_head.with("rms_norm_eps", 1e-6.into());
    }
    text_keys(&one_head, keys)?;
    dense_keys(hparams, keys)?;
    let (rank, rotated) = (hparams.need_u64(&["kv_lora_rank"])?, hparams.need_u64(&["qk_rope_head_dim"])?);
    let (head_keys, head_values) = head_rows(hparams)?;
    keys.derived_from("rope.dimension_count", &["qk_rope_head_dim"]);
    keys.set_derived("attention.kv_lora_rank", "kv_lora_rank", rank)?;
    keys.set_derived("attention.key_length", "kv_lora_rank", rank.saturating_add(rotated))?;
    keys.set_derived("attention.value_length", "kv_lora_rank", rank)?;
    keys.set_derived("attention.key_length_mla", "qk_nope_head_dim", head_keys.saturating_add(rotated))?;
    keys.set_derived("attention.value_length_mla", "v_head_dim", head_values)?;
    expert_keys(hparams, keys)?;
    keys.derived_from("rope.scaling.yarn_log_multiplier", &["rope_parameters.mscale_all_dim"]);
    keys.set_derived("rope.dimension_count", "qk_rope_head_dim", rotated)?;
    // YaRN multiplies attention by m^2 with m = 0.1 mscale_all_dim ln(factor) + 1; llama.cpp reads 0.1 mscale_all_dim.
    if hparams.rope().get("mscale_all_dim").is_some() {
        let scale = 0.1 * hparams.rope().f64_or("mscale_all_dim", 0.0)?;
        keys.set_prefixed("rope.scaling.yarn_log_multiplier", Value::F32(scale as f32));
    }
    Ok(())
}

/// Number of leading dense layers, size of the vocabulary, and rank of the compressed queries.
///
/// # Errors
///
/// [`ArchError::MissingKey`], [`ArchError::BadKey`].
pub fn dense_keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    // Models of this class without experts (Youtu) are dense in all layers.
    let dense = match hparams.get_u64("first_k_dense_replace")? {
        Some(dense) => dense,
        None if hparams.get("n_routed_experts").is_some() => 0,
        None => hparams.n_layers()?,
    };
    keys.set_derived("leading_dense_block_count", "first_k_dense_replace", dense)?;
    keys.vocab_size(hparams)?;
    keys.count("attention.q_lora_rank", hparams, &["q_lora_rank"])
}

/// Experts and their weights.
///
/// # Errors
///
/// [`ArchError::MissingKey`], [`ArchError::BadKey`].
pub fn expert_keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    keys.needed("expert_feed_forward_length", hparams, &["moe_intermediate_size", "intermediate_size"])?;
    keys.count("expert_count", hparams, &["n_routed_experts"])?;
    keys.set_derived(
        "expert_shared_count",
        "n_shared_experts",
        hparams.get_u64("n_shared_experts")?.unwrap_or(0),
    )?;
    keys.number("expert_weights_scale", hparams, &["routed_scaling_factor"])?;
    keys.derived_from("expert_weights_norm", &["norm_topk_prob"]);
    if hparams.is_true("norm_topk_prob") {
        keys.set_prefixed("expert_weights_norm", Value::Bool(true));
    }
    Ok(())
}
