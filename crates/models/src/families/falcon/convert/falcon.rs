//! Falcon 7B (one key head), 40B and 180B (several), and other models of their class.
//!
//! Config keys: in their own order; the context is 2048 and the feed-forward length four times the width,
//! whatever the config says. Newer files state as many key heads as heads if there is one; `multi_query`
//! distinguishes them, and the reference, which does not read it, stops.
//!
//! Transforms: queries, key and value of each key head are stored together; they become all Q, all K, all V,
//! still in one tensor (the data layout `jploski`).
//!
//! Source: `FalconModel` in `conversion/falcon.py`.

use crate::prelude::*;

pub const FALCON: Arch = Arch {
    name: "falcon",
    classes: &[Class::new("FalconForCausalLM"), Class::new("RWForCausalLM")],
    example: "tiiuae/falcon-7b",
    configs: &[FALCON_CONFIG],
    needs: &["hidden_size"],
    tensors: &[ENDS, LAYERS],
    keys,
    built_in: &[BuiltIn::is("alibi", &["false"])],
    ..DECODER
};

const ENDS: &[TensorRule] = &[
    TensorRule::copy(&["transformer.word_embeddings"], "token_embd"),
    TensorRule::copy(&["transformer.ln_f"], "output_norm"),
    TensorRule::copy(&["lm_head"], "output").need(Need::Optional),
];

/// Larger models have a norm for attention and one for the feed-forward part.
const LAYERS: &[TensorRule] = &[
    TensorRule::copy(&["transformer.h.{bid}.input_layernorm"], "blk.{bid}.attn_norm")
        .need(Need::If(|hparams, _| !has_two_norms(hparams))),
    TensorRule::copy(&["transformer.h.{bid}.ln_mlp"], "blk.{bid}.attn_norm")
        .need(Need::If(|hparams, _| has_two_norms(hparams))),
    TensorRule::copy(&["transformer.h.{bid}.ln_attn"], "blk.{bid}.attn_norm_2")
        .need(Need::If(|hparams, _| has_two_norms(hparams))),
    TensorRule::part(
        &["transformer.h.{bid}.self_attention.query_key_value"],
        "blk.{bid}.attn_qkv",
        |hparams, _| by_key_head(hparams),
    ),
    TensorRule::copy(&["transformer.h.{bid}.self_attention.dense"], "blk.{bid}.attn_output"),
    TensorRule::copy(&["transformer.h.{bid}.mlp.dense_h_to_4h"], "blk.{bid}.ffn_up"),
    TensorRule::copy(&["transformer.h.{bid}.mlp.dense_4h_to_h"], "blk.{bid}.ffn_down"),
];

/// True if attention and the feed-forward part have a norm each, like in the 40B and 180B models.
fn has_two_norms(hparams: &Hparams) -> bool {
    // Falcon 11B has the new architecture with one norm, and states it with this key.
    let stated = hparams.get("num_ln_in_parallel_attn").and_then(Json::as_u64);
    hparams.is_true("new_decoder_architecture") && stated.unwrap_or(2) == 2
}

fn by_key_head(hparams: &Hparams) -> Result<RowMap, ArchError> {
    let (heads, key_heads) = heads(hparams)?;
    let rows = hparams.need_u64(&["hidden_size"])?.checked_div(heads).unwrap_or(0);
    // query_key_value contains, for each key head, its heads / key_heads queries, one key and one value, of
    // `rows = width / heads` rows each: 71 queries to one key in Falcon 7B, 16 in 40B.
    let queries = heads.checked_div(key_heads).unwrap_or(0).saturating_mul(rows);
    Ok(RowMap::Ungroup { queries, keys: rows })
}

/// Heads and key heads.
fn heads(hparams: &Hparams) -> Result<(u64, u64), ArchError> {
    let heads = hparams.need_u64(&["num_attention_heads", "n_head"])?;
    // transformers fills `num_kv_heads` with the number of heads, also where all share one key head.
    let one = hparams.is_true("multi_query") && !hparams.is_true("new_decoder_architecture");
    let stated =
        hparams.get_u64("num_kv_heads")?.map_or_else(|| hparams.get_u64("n_head_kv"), |n| Ok(Some(n)))?;
    Ok((heads, if one { 1 } else { stated.unwrap_or(1) }))
}

/// `FalconConfig`.
const FALCON_CONFIG: ConfigClass = ConfigClass::new("falcon").adjusted(|map| {
    // The name of the width in files of 2023.
    adjust::rename(map, "n_embed", "hidden_size");
    if map.get("num_kv_heads").is_none_or(Json::is_null) {
        let heads = map.get("num_attention_heads").cloned().unwrap_or_default();
        map.insert("num_kv_heads".into(), heads);
    }
    Ok(())
});

fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    let (heads, key_heads) = heads(hparams)?;
    // No key of the config states it: all models were trained for 2048 positions.
    keys.set_derived("context_length", "max_position_embeddings", 2048)?;
    keys.set_prefixed("tensor_data_layout", "jploski".into());
    keys.needed("embedding_length", hparams, &["hidden_size"])?;
    let width = hparams.need_u64(&["hidden_size"])?;
    keys.set_derived("feed_forward_length", "hidden_size", width.saturating_mul(4))?;
    keys.set_derived("block_count", "num_hidden_layers", hparams.n_layers()?)?;
    keys.set_derived("attention.head_count", "num_attention_heads", heads)?;
    keys.set_derived("attention.head_count_kv", "num_kv_heads", key_heads)?;
    keys.needed_number("attention.layer_norm_epsilon", hparams, &["layer_norm_epsilon"])?;
    keys.file_type_here();
    Ok(())
}
