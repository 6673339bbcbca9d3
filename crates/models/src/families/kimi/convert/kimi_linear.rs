//! Kimi Linear: delta attention (KDA) in most layers, latent attention in the others, and a mixture of experts.
//!
//! Config keys: those of every text model with one key head; key heads by layer, 0 for delta attention; lengths of the
//! latent attention; experts and their weights.
//!
//! Transforms: those of DeepSeek 2's latent attention; kernels of convolutions get dimensions of one; the decay is taken out
//! of its logarithm. Experts become one tensor.
//!
//! Source: `KimiLinearModel` in `conversion/kimi_linear.py`.

use crate::parts::latent;
use crate::prelude::*;

pub const KIMI_LINEAR: Arch = Arch {
    name: "kimi-linear",
    classes: &[Class::new("KimiLinearForCausalLM"), Class::inner("KimiLinearModel", "model.")],
    example: "moonshotai/Kimi-Linear-48B-A3B-Instruct",
    configs: &[KIMI_LINEAR_CONFIG],
    needs: &["hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size"],
    tensors: &[rules::DECODER_ENDS, rules::PRE_NORMS, LATENT, DELTA, DENSE, EXPERTS],
    keys,
    // The reference takes names of the inner part with or without the start.
    rename: |_, name| name.strip_prefix("model.model.").map(|rest| format!("model.{rest}")),
    vocab: latent::ROUTE,
    harmless: &["layer_types", "mlp_layer_types", "moe_renormalize=true"],
    built_in: &[NORMALIZES_EXPERTS, BuiltIn::is("moe_renormalize", &["true"])],
    from_file,
    ..DECODER
};

const LATENT: &[TensorRule] = &[
    // Layers of both kinds have queries and an output; the rest of their attention is of one kind.
    TensorRule::copy(&["model.layers.{bid}.self_attn.q_proj"], "blk.{bid}.attn_q"),
    // (rank + rotated, hidden): the compressed vector above the one rotated key of all heads
    TensorRule::copy(&["model.layers.{bid}.self_attn.kv_a_proj_with_mqa"], "blk.{bid}.attn_kv_a_mqa")
        .need(IS_LATENT),
    TensorRule::copy(&["model.layers.{bid}.self_attn.kv_a_layernorm"], "blk.{bid}.attn_kv_a_norm")
        .need(IS_LATENT),
    // `kv_b_proj` is read twice: rows of keys, transposed head by head, and rows of values.
    TensorRule::transposed(
        &["model.layers.{bid}.self_attn.kv_b_proj"],
        "blk.{bid}.attn_k_b",
        latent::head_keys,
    )
    .need(IS_LATENT),
    TensorRule::part(&["model.layers.{bid}.self_attn.kv_b_proj"], "blk.{bid}.attn_v_b", latent::head_values)
        .shape(latent::BY_HEAD)
        .need(IS_LATENT),
    TensorRule::copy(&["model.layers.{bid}.self_attn.o_proj"], "blk.{bid}.attn_output"),
];

const DELTA: &[TensorRule] = &[
    TensorRule::copy(&["model.layers.{bid}.self_attn.k_proj"], "blk.{bid}.attn_k").need(IS_DELTA),
    TensorRule::copy(&["model.layers.{bid}.self_attn.v_proj"], "blk.{bid}.attn_v").need(IS_DELTA),
    TensorRule::copy(&["model.layers.{bid}.self_attn.q_conv1d"], "blk.{bid}.ssm_conv1d_q")
        .shape(KERNEL)
        .need(IS_DELTA),
    TensorRule::copy(&["model.layers.{bid}.self_attn.k_conv1d"], "blk.{bid}.ssm_conv1d_k")
        .shape(KERNEL)
        .need(IS_DELTA),
    TensorRule::copy(&["model.layers.{bid}.self_attn.v_conv1d"], "blk.{bid}.ssm_conv1d_v")
        .shape(KERNEL)
        .need(IS_DELTA),
    // Pairs of matrices, each a product: f_b f_a x, and below g_b g_a x.
    TensorRule::copy(&["model.layers.{bid}.self_attn.f_a_proj"], "blk.{bid}.ssm_f_a").need(IS_DELTA),
    TensorRule::copy(&["model.layers.{bid}.self_attn.f_b_proj"], "blk.{bid}.ssm_f_b").need(IS_DELTA),
    TensorRule::copy(&["model.layers.{bid}.self_attn.b_proj"], "blk.{bid}.ssm_beta").need(IS_DELTA),
    TensorRule::copy(&["model.layers.{bid}.self_attn.g_a_proj"], "blk.{bid}.ssm_g_a").need(IS_DELTA),
    TensorRule::copy(&["model.layers.{bid}.self_attn.g_b_proj"], "blk.{bid}.ssm_g_b").need(IS_DELTA),
    // a = -exp(A_log)
    TensorRule::copy(&["model.layers.{bid}.self_attn.A_log"], "blk.{bid}.ssm_a")
        .bare("")
        .element(ElementMap::MinusExp)
        .need(IS_DELTA),
    // The entire tensor is a bias and is named as one: `ssm_dt.bias`.
    TensorRule::copy(&["model.layers.{bid}.self_attn.dt_bias"], "blk.{bid}.ssm_dt")
        .bare(".bias")
        .need(IS_DELTA),
    TensorRule::copy(&["model.layers.{bid}.self_attn.o_norm"], "blk.{bid}.ssm_norm").need(IS_DELTA),
];

/// The kernel of a convolution of one channel each, with the dimensions that llama.cpp's operation wants: (channels,
/// kernel) or (channels, 1, kernel) becomes (1, channels, 1, kernel).
pub const KERNEL: Reshape = Reshape {
    forward: |_, dims| match dims {
        // Fastest dimension first: (channels, 1, kernel) is [kernel, 1, channels] here.
        [kernel, channels] | [kernel, 1, channels] => Ok(vec![*kernel, 1, *channels, 1]),
        other => Ok(other.to_vec()),
    },
    inverse: |dims| match dims {
        [kernel, 1, channels, 1] => vec![*kernel, 1, *channels],
        other => other.to_vec(),
    },
};

/// transformers saves the dense part under the name of the mixtures.
const DENSE: &[TensorRule] = &[
    TensorRule::copy(
        &["model.layers.{bid}.mlp.gate_proj", "model.layers.{bid}.block_sparse_moe.gate_proj"],
        "blk.{bid}.ffn_gate",
    )
    .need(IS_DENSE),
    TensorRule::copy(
        &["model.layers.{bid}.mlp.up_proj", "model.layers.{bid}.block_sparse_moe.up_proj"],
        "blk.{bid}.ffn_up",
    )
    .need(IS_DENSE),
    TensorRule::copy(
        &["model.layers.{bid}.mlp.down_proj", "model.layers.{bid}.block_sparse_moe.down_proj"],
        "blk.{bid}.ffn_down",
    )
    .need(IS_DENSE),
];

const EXPERTS: &[TensorRule] = &[
    TensorRule::copy(&["model.layers.{bid}.block_sparse_moe.gate"], "blk.{bid}.ffn_gate_inp").need(MIXES),
    TensorRule::copy(
        &["model.layers.{bid}.block_sparse_moe.gate.e_score_correction"],
        "blk.{bid}.exp_probs_b",
    )
    .need(Need::Optional),
    // w1 is gate, w2 down, w3 up.
    TensorRule::stack(&["model.layers.{bid}.block_sparse_moe.experts.{xid}.w1"], "blk.{bid}.ffn_gate_exps")
        .need(MIXES),
    TensorRule::stack(&["model.layers.{bid}.block_sparse_moe.experts.{xid}.w2"], "blk.{bid}.ffn_down_exps")
        .need(MIXES),
    TensorRule::stack(&["model.layers.{bid}.block_sparse_moe.experts.{xid}.w3"], "blk.{bid}.ffn_up_exps")
        .need(MIXES),
    TensorRule::copy(
        &["model.layers.{bid}.block_sparse_moe.shared_experts.gate_proj"],
        "blk.{bid}.ffn_gate_shexp",
    )
    .need(MIXES),
    TensorRule::copy(
        &["model.layers.{bid}.block_sparse_moe.shared_experts.up_proj"],
        "blk.{bid}.ffn_up_shexp",
    )
    .need(MIXES),
    TensorRule::copy(
        &["model.layers.{bid}.block_sparse_moe.shared_experts.down_proj"],
        "blk.{bid}.ffn_down_shexp",
    )
    .need(MIXES),
];

const IS_LATENT: Need = Need::If(is_latent);
const IS_DELTA: Need = Need::If(|hparams, bid| !is_latent(hparams, bid));
const IS_DENSE: Need = Need::If(|hparams, bid| !is_mixture(hparams, bid));
const MIXES: Need = Need::If(is_mixture);

/// True if a layer has latent attention; the config counts layers from one.
fn is_latent(hparams: &Hparams, bid: u64) -> bool {
    let full = hparams.get("linear_attn_config").and_then(|config| config.get("full_attn_layers"));
    full.and_then(Json::as_array).is_some_and(|layers| layers.contains(&(bid.saturating_add(1)).into()))
}

fn is_mixture(hparams: &Hparams, bid: u64) -> bool {
    bid >= hparams.get_u64("first_k_dense_replace").ok().flatten().unwrap_or(0)
}

fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    if hparams.get("linear_attn_config").is_none() {
        return Err(missing("linear_attn_config"));
    }
    // Absorbed latent attention has one key head.
    text_keys(&hparams.with("num_key_value_heads", 1.into()), keys)?;
    keys.vocab_size(hparams)?;
    let n_layers = hparams.n_layers()?.min(10_000);
    // 1 for latent attention, 0 for delta attention
    let heads = (0..n_layers).map(|bid| i32::from(is_latent(hparams, bid))).collect();
    keys.set_prefixed("attention.head_count_kv", Value::Array(Array::I32(heads)));
    let linear_value = |name: &str| hparams.get("linear_attn_config").and_then(|config| config.get(name));
    for (key, name) in [("ssm.conv_kernel", "short_conv_kernel_size"), ("kda.head_dim", "head_dim")] {
        if let Some(count) = linear_value(name).filter(|count| !count.is_null()) {
            keys.set_prefixed(key, Value::U32(to_u32(&format!("linear_attn_config.{name}"), count)?));
        }
    }
    keys.count("attention.q_lora_rank", hparams, &["q_lora_rank", "n_lora_q"])?;
    let rank = hparams.need_u64(&["kv_lora_rank", "n_lora_kv"])?;
    let rotated = hparams.need_u64(&["qk_rope_head_dim", "n_rot"])?;
    keys.set_derived("attention.kv_lora_rank", "kv_lora_rank", rank)?;
    keys.set_derived("rope.dimension_count", "qk_rope_head_dim", rotated)?;
    // An absorbed key is compressed vector and rotated part; `..._mla` are the lengths of one head.
    keys.set_derived("attention.key_length", "kv_lora_rank", rank.saturating_add(rotated))?;
    if let Some(plain) = hparams.get_u64("qk_nope_head_dim")? {
        keys.set_derived("attention.key_length_mla", "qk_nope_head_dim", plain.saturating_add(rotated))?;
    }
    keys.count("attention.value_length_mla", hparams, &["v_head_dim"])?;
    keys.needed("expert_feed_forward_length", hparams, &["moe_intermediate_size"])?;
    keys.needed("expert_shared_count", hparams, &["num_shared_experts"])?;
    keys.needed("leading_dense_block_count", hparams, &["first_k_dense_replace"])?;
    keys.needed_number("expert_weights_scale", hparams, &["routed_scaling_factor"])
}

/// Attention layers, and the lengths of both kinds of heads.
fn from_file(file: &FileKeys<'_>, config: &mut Map<String, Json>) {
    let latent = file.flags("attention.head_count_kv").unwrap_or_default();
    // The config counts layers from one.
    let listed = |is: bool| -> Json {
        latent.iter().enumerate().filter(|(_, flag)| **flag == is).map(|(layer, _)| layer + 1).collect()
    };
    let heads = file.count("attention.head_count");
    let linear = json!({
        "full_attn_layers": listed(true),
        "kda_layers": listed(false),
        "num_heads": heads,
        "head_dim": file.count("kda.head_dim"),
        "short_conv_kernel_size": file.count("ssm.conv_kernel"),
    });
    config.insert("linear_attn_config".into(), linear);
    set(config, "num_key_value_heads", heads);
    file.latent_lengths(config);
    set(config, "first_k_dense_replace", file.count("leading_dense_block_count"));
    set(config, "num_shared_experts", file.count("expert_shared_count"));
    config.remove("n_shared_experts");
}

/// `KimiLinearConfig`.
const KIMI_LINEAR_CONFIG: ConfigClass = ConfigClass::new("kimi_linear").adjusted(|map| {
    // transformers' `head_dim` is only the rotated part.
    let rotated = map.get("qk_rope_head_dim").cloned().unwrap_or_default();
    map.insert("head_dim".into(), rotated);
    hub_spelling(map);
    Ok(())
});

/// Adds the keys of the Hub's files to a config that transformers 5 saved, which has lists of kinds instead.
fn hub_spelling(map: &mut Map<String, Json>) {
    let kinds = |map: &Map<String, Json>, key: &str| map.get(key).and_then(Json::as_array).cloned();
    let has = |map: &Map<String, Json>, key: &str| map.get(key).is_some_and(|value| !value.is_null());
    if let Some(kinds) = kinds(map, "layer_types").filter(|_| !has(map, "linear_attn_config")) {
        // The Hub's files count layers from one.
        let listed = |kind: &str| -> Json {
            kinds.iter().enumerate().filter(|(_, layer)| *layer == kind).map(|(layer, _)| layer + 1).collect()
        };
        let linear = json!({
            "full_attn_layers": listed("full_attention"), "kda_layers": listed("linear_attention"),
            "head_dim": map.get("linear_head_dim"), "num_heads": map.get("linear_num_heads"),
            "short_conv_kernel_size": map.get("linear_conv_kernel_dim"),
        });
        map.insert("linear_attn_config".into(), linear);
    }
    if let Some(kinds) = kinds(map, "mlp_layer_types").filter(|_| !has(map, "first_k_dense_replace")) {
        let n_dense = kinds.iter().take_while(|kind| *kind == "dense").count();
        map.insert("first_k_dense_replace".into(), n_dense.into());
    }
}
