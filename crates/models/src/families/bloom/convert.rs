//! BLOOM and BLOOMZ.
//!
//! Config keys: in their own order; the context length is `seq_length`, or else the width.
//!
//! Transforms: Q, K and V of each head are stored together; they become all Q, all K, all V, still in one
//! tensor.
//!
//! Source: `BloomModel` in `conversion/bloom.py`.

use crate::families::gpt_neox::convert::gptneox::by_head;
use crate::prelude::*;
use gguf_layout::built_in::no_length;

pub const BLOOM: Arch = Arch {
    name: "bloom",
    classes: &[Class::new("BloomForCausalLM"), Class::new("BloomModel")],
    example: "bigscience/bloom-560m",
    configs: &[BLOOM_CONFIG],
    needs: &["n_layer"],
    tensors: &[ENDS, LAYERS],
    keys,
    // As in the classes with an output; older checkpoints leave it out.
    rename: |_, name| {
        let whole = name.starts_with("transformer.") || name.starts_with("lm_head.");
        Some(if whole { name.to_owned() } else { format!("transformer.{name}") })
    },
    ..DECODER
};

const ENDS: &[TensorRule] = &[
    TensorRule::copy(&["transformer.word_embeddings"], "token_embd"),
    TensorRule::copy(&["transformer.word_embeddings_layernorm"], "token_embd_norm"),
    TensorRule::copy(&["transformer.ln_f"], "output_norm"),
    TensorRule::copy(&["lm_head"], "output").need(Need::Optional),
];

const LAYERS: &[TensorRule] = &[
    TensorRule::copy(&["transformer.h.{bid}.input_layernorm"], "blk.{bid}.attn_norm"),
    TensorRule::part(
        &["transformer.h.{bid}.self_attention.query_key_value"],
        "blk.{bid}.attn_qkv",
        |hparams, _| by_head(hparams),
    ),
    TensorRule::copy(&["transformer.h.{bid}.self_attention.dense"], "blk.{bid}.attn_output"),
    TensorRule::copy(&["transformer.h.{bid}.post_attention_layernorm"], "blk.{bid}.ffn_norm"),
    TensorRule::copy(&["transformer.h.{bid}.mlp.dense_h_to_4h"], "blk.{bid}.ffn_up"),
    TensorRule::copy(&["transformer.h.{bid}.mlp.dense_4h_to_h"], "blk.{bid}.ffn_down"),
];

/// `BloomConfig`.
const BLOOM_CONFIG: ConfigClass = ConfigClass::new("bloom").adjusted(|map| {
    // Files of 2022 have the width under `n_embed`, which `BloomConfig` moves.
    adjust::rename(map, "n_embed", "hidden_size");
    Ok(())
});

fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    let width = hparams.need_u64(&["hidden_size"])?;
    let heads = hparams.need_u64(&["n_head", "num_attention_heads"])?;
    // ALiBi has no longest position: the reference writes `seq_length`, or the width for want of a
    // better number.
    let length = hparams.get_u64("seq_length")?;
    if length.is_none() {
        keys.notes.push(no_length(width));
    }
    let context = length.unwrap_or(width);
    keys.set_derived("context_length", "seq_length", context)?;
    keys.set_derived("embedding_length", "hidden_size", width)?;
    keys.set_derived("feed_forward_length", "hidden_size", width.saturating_mul(4))?;
    keys.set_derived("block_count", "n_layer", hparams.n_layers()?)?;
    keys.set_derived("attention.head_count", "n_head", heads)?;
    // Multi-head attention: as many key heads as heads.
    keys.set_derived("attention.head_count_kv", "n_head", heads)?;
    keys.needed_number("attention.layer_norm_epsilon", hparams, &["layer_norm_epsilon"])?;
    keys.file_type_here();
    Ok(())
}
