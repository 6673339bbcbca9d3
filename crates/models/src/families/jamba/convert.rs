//! Jamba 1 and 1.5, and Mini-Jamba.
//!
//! Config keys: in their own order; the number of key heads is a list with 0 for each Mamba layer.
//!
//! Transforms: those of Mamba; experts become one tensor. In a layer without a mixture, the only expert is
//! the feed-forward part.
//!
//! Source: `JambaModel` in `conversion/jamba.py`.

use crate::families::mamba::convert::mamba::{count_or, epsilon, state_keys};
use crate::prelude::*;

pub const JAMBA: Arch = Arch {
    name: "jamba",
    classes: &[Class::new("JambaForCausalLM")],
    example: "ai21labs/Jamba-v0.1",
    configs: &[JAMBA_CONFIG],
    needs: &["hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "vocab_size"],
    tensors: &[ENDS, NORMS, MAMBA, ATTENTION, FORWARD],
    keys,
    rename: |hparams, name| {
        // Older checkpoints say `moe`; in layers without a mixture the first expert is the feed-forward
        // part.
        let name = name.replace(".moe.", ".feed_forward.");
        let layer = name.split('.').find_map(|part| part.parse::<u64>().ok())?;
        let count = |key| hparams.get_u64(key).ok().flatten().unwrap_or(0);
        let (offset, period) = (count("expert_layer_offset"), count("expert_layer_period").max(1));
        let mixes = layer >= offset && (layer - offset).is_multiple_of(period);
        Some(if mixes { name } else { name.replace(".experts.0.", ".") })
    },
    vocab: ROUTE,
    harmless: &["hidden_act=silu"],
    ..DECODER
};

/// tokenizer.model, else a llama tokenizer as tokenizer.json.
const ROUTE: Route = Route::new("sentencepiece_or_llama_hf", |writer| {
    if writer.has_spm() { writer.spm(SpmStyle::Plain) } else { writer.llama_hf() }
});

const ENDS: &[TensorRule] = &[
    TensorRule::copy(&["model.embed_tokens"], "token_embd"),
    TensorRule::copy(&["model.final_layernorm"], "output_norm"),
    TensorRule::copy(&["lm_head"], "output").need(Need::Optional),
];

const NORMS: &[TensorRule] = &[
    TensorRule::copy(&["model.layers.{bid}.input_layernorm"], "blk.{bid}.attn_norm"),
    TensorRule::copy(&["model.layers.{bid}.pre_ff_layernorm"], "blk.{bid}.ffn_norm"),
];

/// Tensors of Mamba layers.
const MAMBA: &[TensorRule] = &[
    TensorRule::copy(&["model.layers.{bid}.mamba.A_log"], "blk.{bid}.ssm_a")
        .bare("")
        .element(ElementMap::MinusExp)
        .need(IS_MAMBA),
    TensorRule::copy(&["model.layers.{bid}.mamba.D"], "blk.{bid}.ssm_d").bare("").need(IS_MAMBA),
    TensorRule::copy(&["model.layers.{bid}.mamba.conv1d"], "blk.{bid}.ssm_conv1d")
        .shape(rules::SQUEEZE_CHANNEL)
        .need(IS_MAMBA),
    TensorRule::copy(&["model.layers.{bid}.mamba.in_proj"], "blk.{bid}.ssm_in").need(IS_MAMBA),
    TensorRule::copy(&["model.layers.{bid}.mamba.x_proj"], "blk.{bid}.ssm_x").need(IS_MAMBA),
    TensorRule::copy(&["model.layers.{bid}.mamba.dt_proj"], "blk.{bid}.ssm_dt").need(IS_MAMBA),
    TensorRule::copy(&["model.layers.{bid}.mamba.out_proj"], "blk.{bid}.ssm_out").need(IS_MAMBA),
    TensorRule::copy(&["model.layers.{bid}.mamba.dt_layernorm"], "blk.{bid}.ssm_dt_norm").need(IS_MAMBA),
    TensorRule::copy(&["model.layers.{bid}.mamba.b_layernorm"], "blk.{bid}.ssm_b_norm").need(IS_MAMBA),
    TensorRule::copy(&["model.layers.{bid}.mamba.c_layernorm"], "blk.{bid}.ssm_c_norm").need(IS_MAMBA),
];

const ATTENTION: &[TensorRule] = &[
    TensorRule::copy(&["model.layers.{bid}.self_attn.q_proj"], "blk.{bid}.attn_q").need(ATTENDS),
    TensorRule::copy(&["model.layers.{bid}.self_attn.k_proj"], "blk.{bid}.attn_k").need(ATTENDS),
    TensorRule::copy(&["model.layers.{bid}.self_attn.v_proj"], "blk.{bid}.attn_v").need(ATTENDS),
    TensorRule::copy(&["model.layers.{bid}.self_attn.o_proj"], "blk.{bid}.attn_output").need(ATTENDS),
];

const FORWARD: &[TensorRule] = &[
    TensorRule::copy(&["model.layers.{bid}.feed_forward.gate_proj"], "blk.{bid}.ffn_gate").need(IS_DENSE),
    TensorRule::copy(&["model.layers.{bid}.feed_forward.up_proj"], "blk.{bid}.ffn_up").need(IS_DENSE),
    TensorRule::copy(&["model.layers.{bid}.feed_forward.down_proj"], "blk.{bid}.ffn_down").need(IS_DENSE),
    TensorRule::copy(&["model.layers.{bid}.feed_forward.router"], "blk.{bid}.ffn_gate_inp").need(IS_MIXTURE),
    TensorRule::stack(
        &["model.layers.{bid}.feed_forward.experts.{xid}.down_proj"],
        "blk.{bid}.ffn_down_exps",
    )
    .need(IS_MIXTURE),
    TensorRule::stack(
        &["model.layers.{bid}.feed_forward.experts.{xid}.gate_proj"],
        "blk.{bid}.ffn_gate_exps",
    )
    .need(IS_MIXTURE),
    TensorRule::stack(&["model.layers.{bid}.feed_forward.experts.{xid}.up_proj"], "blk.{bid}.ffn_up_exps")
        .need(IS_MIXTURE),
];

const ATTENDS: Need = Need::If(attends);
const IS_MAMBA: Need = Need::If(|hparams, bid| !attends(hparams, bid));
const IS_MIXTURE: Need = Need::If(is_mixture);
const IS_DENSE: Need = Need::If(|hparams, bid| !is_mixture(hparams, bid));

/// True for layers that come once per period.
fn comes(hparams: &Hparams, bid: u64, keys: [&str; 2]) -> bool {
    let [offset, period] = keys.map(|key| hparams.get(key).and_then(Json::as_u64));
    // Layers offset, offset + period, offset + 2 period, ...: attention in layers 4, 12, 20, 28 of
    // Jamba 1.
    let since = bid.checked_sub(offset.unwrap_or(0));
    since.is_some_and(|since| since.is_multiple_of(period.unwrap_or(1).max(1)))
}

fn attends(hparams: &Hparams, bid: u64) -> bool {
    comes(hparams, bid, ["attn_layer_offset", "attn_layer_period"])
}

fn is_mixture(hparams: &Hparams, bid: u64) -> bool {
    let n_experts = hparams.get("num_experts").and_then(Json::as_u64).unwrap_or(0);
    n_experts > 1 && comes(hparams, bid, ["expert_layer_offset", "expert_layer_period"])
}

/// `JambaConfig`.
const JAMBA_CONFIG: ConfigClass = ConfigClass::new("jamba").adjusted(|map| {
    // `JambaConfig`: ceil(width / 16).
    if map.get("mamba_dt_rank").is_some_and(|rank| rank == "auto") {
        let width = map.get("hidden_size").and_then(Json::as_u64).unwrap_or(0);
        map.insert("mamba_dt_rank".into(), width.div_ceil(16).into());
    }
    Ok(())
});

fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    keys.derived_from("ssm.inner_size", &["mamba_expand"]);
    let width = hparams.need_u64(&["hidden_size"])?;
    let inner = hparams.need_u64(&["mamba_expand"])?.saturating_mul(width);
    keys.set_derived("block_count", "num_hidden_layers", hparams.n_layers()?)?;
    keys.needed("context_length", hparams, &["max_position_embeddings"])?;
    keys.set_derived("embedding_length", "hidden_size", width)?;
    keys.needed("feed_forward_length", hparams, &["intermediate_size"])?;
    keys.needed("attention.head_count", hparams, &["num_attention_heads"])?;
    // One count for each layer: llama.cpp makes a Mamba layer of those with 0 key heads.
    keys.set_prefixed("attention.head_count_kv", Value::Array(Array::I32(kv_heads(hparams)?)));
    state_keys(hparams, keys, &["mamba_d_conv"], inner, &["mamba_d_state"])?;
    let rank = count_or(hparams, &["mamba_dt_rank"], width.div_ceil(16))?;
    keys.set_derived("ssm.time_step_rank", "mamba_dt_rank", rank)?;
    epsilon(hparams, keys, 1e-6)?;
    keys.needed("expert_count", hparams, &["num_local_experts", "num_experts"])?;
    keys.needed("expert_used_count", hparams, &["num_experts_per_tok"])?;
    keys.file_type_here();
    Ok(())
}

/// Key heads of each layer.
fn kv_heads(hparams: &Hparams) -> Result<Vec<i32>, ArchError> {
    let heads = hparams.n_kv_heads()?;
    let heads = to_i32("num_key_value_heads", &heads.into())?;
    let (offset, period) =
        (hparams.need_u64(&["attn_layer_offset"])?, hparams.need_u64(&["attn_layer_period"])?.max(1));
    // The number comes from a file and sizes a list.
    let n_layers = hparams.n_layers()?.min(10_000);
    let attends = |layer: u64| layer >= offset && (layer - offset).is_multiple_of(period);
    Ok((0..n_layers).map(|layer| if attends(layer) { heads } else { 0 }).collect())
}
