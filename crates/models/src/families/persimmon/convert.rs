//! Persimmon.
//!
//! Config keys: length, widths and heads; as many key heads as heads; the rotary base and the share
//! of a head that is rotated (half if an older file does not state it).
//!
//! Transforms: Q, K and V stay one matrix, interleaved by head.
//!
//! Source: `PersimmonModel` in `convert_hf_to_gguf.py` and `MODEL_ARCH.PERSIMMON` in gguf-py of
//! llama.cpp until it was dropped there; the reference has only the tensor names.

use crate::prelude::*;

pub const PERSIMMON: Arch = Arch {
    name: "persimmon",
    classes: &[Class::new("PersimmonForCausalLM")],
    example: "adept/persimmon-8b-base",
    configs: &[ConfigClass::new("persimmon")],
    tensors: &[ENDS, LAYERS],
    keys,
    vocab: Route::SENTENCE_PIECE,
    ..DECODER
};

const ENDS: &[TensorRule] = &[
    TensorRule::copy(&["model.embed_tokens"], "token_embd"),
    TensorRule::copy(&["model.final_layernorm"], "output_norm"),
    TensorRule::copy(&["lm_head"], "output").need(Need::Optional),
];

/// Queries and keys have norms unless `qk_layernorm` is false.
const LAYERS: &[TensorRule] = &[
    TensorRule::copy(&["model.layers.{bid}.input_layernorm"], "blk.{bid}.attn_norm"),
    TensorRule::copy(&["model.layers.{bid}.self_attn.query_key_value"], "blk.{bid}.attn_qkv"),
    TensorRule::copy(&["model.layers.{bid}.self_attn.dense"], "blk.{bid}.attn_output"),
    TensorRule::copy(&["model.layers.{bid}.self_attn.q_layernorm"], "blk.{bid}.attn_q_norm").need(NORMED),
    TensorRule::copy(&["model.layers.{bid}.self_attn.k_layernorm"], "blk.{bid}.attn_k_norm").need(NORMED),
    TensorRule::copy(&["model.layers.{bid}.post_attention_layernorm"], "blk.{bid}.ffn_norm"),
    TensorRule::copy(&["model.layers.{bid}.mlp.dense_h_to_4h"], "blk.{bid}.ffn_up"),
    TensorRule::copy(&["model.layers.{bid}.mlp.dense_4h_to_h"], "blk.{bid}.ffn_down"),
];

const NORMED: Need =
    Need::If(|hparams, _| hparams.get("qk_layernorm").is_none_or(|normed| *normed != Json::Bool(false)));

fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    keys.needed("context_length", hparams, &["max_position_embeddings"])?;
    keys.needed("embedding_length", hparams, &["hidden_size"])?;
    keys.set_derived("block_count", "num_hidden_layers", hparams.n_layers()?)?;
    keys.needed("feed_forward_length", hparams, &["intermediate_size"])?;
    // Half of each head, in every release.
    let rotated = hparams.rotated(hparams.head_share()?, Some(0.5))?;
    keys.set_derived("rope.dimension_count", "hidden_size", rotated)?;
    keys.needed("attention.head_count", hparams, &["num_attention_heads"])?;
    // Multi-head attention: the config has no key for key heads.
    keys.needed("attention.head_count_kv", hparams, &["num_attention_heads"])?;
    // 25000 in Persimmon 8B.
    keys.rope_number("rope.freq_base", hparams.rope(), &["rope_theta"])?;
    keys.needed_number("attention.layer_norm_epsilon", hparams, &["layer_norm_eps"])?;
    keys.file_type_here();
    Ok(())
}
