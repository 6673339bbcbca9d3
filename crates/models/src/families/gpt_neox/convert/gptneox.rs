//! GPT-NeoX, Pythia and similar models.
//!
//! Config keys: in their own order, without a file type. The rotated share of a head is `rotary_pct` in older
//! files and inside `rope_parameters` in newer ones, on which the reference stops.
//!
//! Transforms: Q, K and V of each head are stored together; they become all Q, all K, all V, still in one
//! tensor.
//!
//! Source: `GPTNeoXModel` in `conversion/gptneox.py`.

use crate::prelude::*;

pub const GPTNEOX: Arch = Arch {
    name: "gptneox",
    classes: &[Class::new("GPTNeoXForCausalLM")],
    example: "EleutherAI/pythia-70m",
    configs: &[GPTNEOX_CONFIG],
    needs: &["hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads"],
    tensors: &[ENDS, LAYERS],
    keys,
    ..DECODER
};

const ENDS: &[TensorRule] = &[
    TensorRule::copy(&["gpt_neox.embed_in"], "token_embd"),
    TensorRule::copy(&["gpt_neox.final_layer_norm"], "output_norm"),
    TensorRule::copy(&["embed_out"], "output").need(Need::Optional),
];

const LAYERS: &[TensorRule] = &[
    TensorRule::copy(&["gpt_neox.layers.{bid}.input_layernorm"], "blk.{bid}.attn_norm"),
    TensorRule::part(
        &["gpt_neox.layers.{bid}.attention.query_key_value"],
        "blk.{bid}.attn_qkv",
        |hparams, _| by_head(hparams),
    ),
    TensorRule::copy(&["gpt_neox.layers.{bid}.attention.dense"], "blk.{bid}.attn_output"),
    TensorRule::copy(&["gpt_neox.layers.{bid}.post_attention_layernorm"], "blk.{bid}.ffn_norm"),
    TensorRule::copy(&["gpt_neox.layers.{bid}.mlp.dense_h_to_4h"], "blk.{bid}.ffn_up"),
    TensorRule::copy(&["gpt_neox.layers.{bid}.mlp.dense_4h_to_h"], "blk.{bid}.ffn_down"),
];

/// Q, K and V of each head.
pub fn by_head(hparams: &Hparams) -> Result<RowMap, ArchError> {
    let heads = hparams.need_u64(&["n_head", "num_attention_heads"])?;
    // Each head has d queries, d keys, d values: the groups of `Ungroup` with as many queries as keys.
    let rows = hparams.need_u64(&["hidden_size"])?.checked_div(heads).unwrap_or(0);
    Ok(RowMap::Ungroup { queries: rows, keys: rows })
}

/// `GPTNeoXConfig`.
const GPTNEOX_CONFIG: ConfigClass = ConfigClass::new("gpt_neox").adjusted(|map| {
    // The names that only this class has for rotary parameters.
    // `GPTNeoXConfig` moves them into `rope_parameters`.
    if let Some(base) = map.remove("rotary_emb_base") {
        map.entry("rope_theta").or_insert(base);
    }
    if let Some(share) = map.remove("rotary_pct") {
        map.entry("partial_rotary_factor").or_insert(share);
    }
    Ok(())
});

fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    keys.needed("context_length", hparams, &["max_position_embeddings"])?;
    keys.needed("embedding_length", hparams, &["hidden_size"])?;
    keys.set_derived("block_count", "num_hidden_layers", hparams.n_layers()?)?;
    keys.needed("feed_forward_length", hparams, &["intermediate_size"])?;
    let share = hparams.get_f64("rotary_pct")?;
    let dims = hparams.head_share()?;
    // Pythia rotates a quarter of each head (`rotary_pct` 0.25).
    let rotated = match share {
        Some(share) => (share * dims as f64) as u64,
        None => hparams.rotated(dims, Some(0.25))?,
    };
    keys.set_derived("rope.dimension_count", "hidden_size", rotated)?;
    keys.needed("attention.head_count", hparams, &["num_attention_heads"])?;
    // The reference takes a missing key for true, like in the first GPT-NeoX.
    let parallel = hparams.get("use_parallel_residual").is_none() || hparams.is_true("use_parallel_residual");
    keys.set_prefixed("use_parallel_residual", Value::Bool(parallel));
    keys.needed_number("attention.layer_norm_epsilon", hparams, &["layer_norm_eps"])?;
    Ok(())
}
