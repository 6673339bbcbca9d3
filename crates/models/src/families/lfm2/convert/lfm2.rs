//! LFM2, dense.
//!
//! Config keys: those of every text model; the number of key heads is a list with 0 for each layer
//! that is a convolution; the feed-forward length is computed.
//!
//! Transforms: the convolution loses a dimension.
//!
//! Source: `LFM2Model` in `conversion/lfm2.py`.

use crate::prelude::*;

pub const LFM2: Arch = Arch {
    name: "lfm2",
    classes: &[Class::new("Lfm2ForCausalLM"), Class::new("LFM2ForCausalLM")],
    example: "LiquidAI/LFM2-1.2B",
    configs: &[LFM2_CONFIG],
    needs: &["hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size"],
    tensors: &[ENDS, LAYERS, CONVOLUTION, ATTENTION],
    keys,
    ..DECODER
};

/// The last norm has the name of an embedding's.
pub const ENDS: &[TensorRule] = &[
    TensorRule::copy(&["model.embed_tokens"], "token_embd"),
    TensorRule::copy(&["model.embedding_norm"], "token_embd_norm"),
    TensorRule::copy(&["lm_head"], "output").need(Need::Optional),
];

/// Norms and feed-forward part of every layer.
pub const LAYERS: &[TensorRule] = &[
    TensorRule::copy(&["model.layers.{bid}.operator_norm"], "blk.{bid}.attn_norm"),
    TensorRule::copy(&["model.layers.{bid}.ffn_norm"], "blk.{bid}.ffn_norm"),
    TensorRule::copy(&["model.layers.{bid}.feed_forward.w1"], "blk.{bid}.ffn_gate"),
    TensorRule::copy(&["model.layers.{bid}.feed_forward.w2"], "blk.{bid}.ffn_down"),
    TensorRule::copy(&["model.layers.{bid}.feed_forward.w3"], "blk.{bid}.ffn_up"),
];

/// Layers that are a short convolution.
pub const CONVOLUTION: &[TensorRule] = &[
    TensorRule::copy(&["model.layers.{bid}.conv.conv"], "blk.{bid}.shortconv.conv")
        .shape(rules::SQUEEZE_CHANNEL)
        .need(CONVOLVES),
    TensorRule::copy(&["model.layers.{bid}.conv.in_proj"], "blk.{bid}.shortconv.in_proj").need(CONVOLVES),
    TensorRule::copy(&["model.layers.{bid}.conv.out_proj"], "blk.{bid}.shortconv.out_proj").need(CONVOLVES),
];

/// Layers that attend.
pub const ATTENTION: &[TensorRule] = &[
    TensorRule::copy(&["model.layers.{bid}.self_attn.q_proj"], "blk.{bid}.attn_q").need(ATTENDS),
    TensorRule::copy(&["model.layers.{bid}.self_attn.k_proj"], "blk.{bid}.attn_k").need(ATTENDS),
    TensorRule::copy(&["model.layers.{bid}.self_attn.v_proj"], "blk.{bid}.attn_v").need(ATTENDS),
    TensorRule::copy(&["model.layers.{bid}.self_attn.out_proj"], "blk.{bid}.attn_output").need(ATTENDS),
    TensorRule::copy(&["model.layers.{bid}.self_attn.q_layernorm"], "blk.{bid}.attn_q_norm").need(ATTENDS),
    TensorRule::copy(&["model.layers.{bid}.self_attn.k_layernorm"], "blk.{bid}.attn_k_norm").need(ATTENDS),
];

const CONVOLVES: Need = Need::If(|hparams, bid| is_of_kind(hparams, bid, "conv"));
const ATTENDS: Need =
    Need::If(|hparams, bid| !["conv", IN_HEAD].iter().any(|kind| is_of_kind(hparams, bid, kind)));

/// Kind of the layers of a head, which have neither part.
pub const IN_HEAD: &str = "head";

/// True if `layer_types` states this kind for a layer.
fn is_of_kind(hparams: &Hparams, bid: u64, name: &str) -> bool {
    let kind = hparams.get("layer_types").and_then(|types| types.get(usize::try_from(bid).ok()?));
    kind.is_some_and(|kind| kind == name)
}

/// `Lfm2Config`.
const LFM2_CONFIG: ConfigClass = ConfigClass::new("lfm2").adjusted(|map| {
    adjust::rename(map, "tie_embedding", "tie_word_embeddings");
    adjust::rename(map, "block_ff_dim", "intermediate_size");
    if map.get("layer_types").is_some_and(|types| !types.is_null()) {
        return Ok(());
    }
    let n_layers = map.get("num_hidden_layers").and_then(Json::as_u64).unwrap_or(0);
    if n_layers > 10_000 {
        return Err(format!("{n_layers} layers"));
    }
    // Older files list the layers with attention (`full_attn_idxs`); all others are convolutions.
    let attends = |layer: u64| match map.get("full_attn_idxs") {
        Some(Json::Array(layers)) => layers.contains(&layer.into()),
        _ => true,
    };
    let kind = |layer| if attends(layer) { "full_attention" } else { "conv" };
    let types: Json = (0..n_layers).map(kind).collect();
    map.insert("layer_types".into(), types);
    Ok(())
});

/// Key heads of every layer. llama.cpp makes a convolution of layers with 0.
pub fn heads_by_layer(hparams: &Hparams) -> Result<Vec<Json>, ArchError> {
    let types = hparams.get("layer_types").and_then(Json::as_array).ok_or_else(|| missing("layer_types"))?;
    let heads = hparams.n_kv_heads()?;
    Ok(types.iter().map(|kind| if kind == "conv" { 0 } else { heads }.into()).collect())
}

/// The keys.
pub fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    text_keys(&hparams.with("num_key_value_heads", heads_by_layer(hparams)?.into()), keys)?;
    keys.vocab_size(hparams)?;
    keys.needed("shortconv.l_cache", hparams, &["conv_L_cache"])?;
    keys.needed_number("attention.layer_norm_rms_epsilon", hparams, &["norm_eps"])?;
    keys.set_derived("feed_forward_length", "intermediate_size", forward_length(hparams)?)
}

/// The feed-forward length, made of the one that the config states.
pub fn forward_length(hparams: &Hparams) -> Result<u64, ArchError> {
    let stated = hparams.need_u64(&["block_ff_dim", "intermediate_size"])?;
    if !hparams.is_true("block_auto_adjust_ff_dim") {
        return Ok(stated);
    }
    // `LFM2Model._add_feed_forward_length`: with stated length s, multiplier m and multiple n
    //   length = n ceil(int(m int(2 s / 3)) / n)
    // 1.2B: 12288 -> 8192, a multiple of 256.
    let mut length = stated.saturating_mul(2) / 3;
    if let Some(factor) = hparams.get_f64("block_ffn_dim_multiplier")? {
        length = (factor * length as f64) as u64;
    }
    let multiple = hparams.need_u64(&["block_multiple_of"])?;
    let none = || bad("block_multiple_of", &multiple.into(), "an integer above 0");
    length.checked_next_multiple_of(multiple).ok_or_else(none)
}
