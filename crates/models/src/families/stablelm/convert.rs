//! StableLM 2 and older ones with the same class.
//!
//! Config keys: those of every text model in their own order, `partial_rotary_factor`,
//! `use_parallel_residual`; the RoPE base is not written.
//!
//! Transforms: norms of queries and keys, one per head, become one tensor per layer (the reference stacks
//! them, loses the stack and stops; here they are written as it intends).
//!
//! Source: `StableLMModel` in `conversion/stablelm.py`.

use crate::prelude::*;

pub const STABLELM: Arch = Arch {
    name: "stablelm",
    classes: &[
        Class::new("StableLmForCausalLM"),
        Class::new("StableLMEpochForCausalLM"),
        Class::new("LlavaStableLMEpochForCausalLM"),
    ],
    example: "stabilityai/stablelm-2-1_6b",
    configs: &[ConfigClass::new("stablelm")],
    tensors: &[rules::DECODER_ENDS, NORMS, HEAD_NORMS, rules::ATTENTION, rules::GATED_MLP],
    keys,
    vocab: Route { name: "stable_lm", ..Route::GPT2 },
    harmless: &["rms_norm_eps"],
    ..DECODER
};

/// With parallel residuals there is one norm.
const NORMS: &[TensorRule] = &[
    TensorRule::copy(&["model.layers.{bid}.input_layernorm"], "blk.{bid}.attn_norm"),
    TensorRule::copy(&["model.layers.{bid}.post_attention_layernorm"], "blk.{bid}.ffn_norm")
        // The 12B model runs attention and feed-forward part on the same normalized input.
        .need(Need::If(|hparams, _| !hparams.is_true("use_parallel_residual"))),
];

/// Norms of queries and keys, one for each head (the 12B model).
const HEAD_NORMS: &[TensorRule] = &[
    TensorRule::copy(&["model.layers.{bid}.self_attn.q_layernorm.norms.{xid}"], "blk.{bid}.attn_q_norm")
        // One norm a head, (head_dim) each, becomes (heads, head_dim).
        .rows(RowRule::Fuse(|hparams| hparams.n_heads().map_or(0, |n_heads| n_heads as usize)))
        .need(Need::Optional),
    TensorRule::copy(&["model.layers.{bid}.self_attn.k_layernorm.norms.{xid}"], "blk.{bid}.attn_k_norm")
        .rows(RowRule::Fuse(|hparams| hparams.n_kv_heads().map_or(0, |n_heads| n_heads as usize)))
        .need(Need::Optional),
];

fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    keys.needed("context_length", hparams, &["max_position_embeddings"])?;
    keys.needed("embedding_length", hparams, &["hidden_size"])?;
    keys.set_derived("block_count", "num_hidden_layers", hparams.n_layers()?)?;
    keys.needed("feed_forward_length", hparams, &["intermediate_size"])?;
    // A quarter of each head in all releases; the reference needs the key.
    let rotated = hparams.rotated(hparams.head_share()?, None)?;
    keys.set_derived("rope.dimension_count", "hidden_size", rotated)?;
    keys.needed("attention.head_count", hparams, &["num_attention_heads"])?;
    keys.needed("attention.head_count_kv", hparams, &["num_key_value_heads"])?;
    // The reference takes a missing key for true.
    let parallel = hparams.get("use_parallel_residual").is_none() || hparams.is_true("use_parallel_residual");
    keys.set_prefixed("use_parallel_residual", Value::Bool(parallel));
    keys.needed_number("attention.layer_norm_epsilon", hparams, &["layer_norm_eps", "norm_eps"])?;
    keys.file_type_here();
    Ok(())
}
