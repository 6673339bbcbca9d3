//! GPT-J 6B. The reference has no converter for it, and llama.cpp does not run it; keys are those of
//! the GGUF specification, names of tensors those that gguf-py lists for the architecture.
//!
//! Config keys: those of the specification, and the feed-forward length, which it has for every model.
//!
//! Transforms: the rotated pairs of GPT-J are side by side in its checkpoints already.
//!
//! Source: the section on GPT-J and the standardized tensor names of the GGUF specification;
//! `MODEL_TENSORS[GPTJ]` in `gguf-py/gguf/constants.py`.

use crate::families::gpt2::convert::gpt2;
use crate::families::starcoder::convert::starcoder;
use crate::prelude::*;

pub const GPTJ: Arch = Arch {
    name: "gptj",
    classes: &[Class::new("GPTJForCausalLM")],
    example: "EleutherAI/gpt-j-6b",
    configs: &[ConfigClass::new("gptj")],
    needs: &["n_embd", "n_layer", "n_head"],
    tensors: &[starcoder::ENDS, LAYERS],
    keys,
    drops: gpt2::causal_mask,
    ..DECODER
};

/// Attention and the feed-forward part have the same norm.
const LAYERS: &[TensorRule] = &[
    TensorRule::copy(&["transformer.h.{bid}.ln_1"], "blk.{bid}.attn_norm"),
    TensorRule::copy(&["transformer.h.{bid}.attn.q_proj"], "blk.{bid}.attn_q"),
    TensorRule::copy(&["transformer.h.{bid}.attn.k_proj"], "blk.{bid}.attn_k"),
    TensorRule::copy(&["transformer.h.{bid}.attn.v_proj"], "blk.{bid}.attn_v"),
    TensorRule::copy(&["transformer.h.{bid}.attn.out_proj"], "blk.{bid}.attn_output"),
    TensorRule::copy(&["transformer.h.{bid}.mlp.fc_in"], "blk.{bid}.ffn_up"),
    TensorRule::copy(&["transformer.h.{bid}.mlp.fc_out"], "blk.{bid}.ffn_down"),
];

fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    let width = hparams.need_u64(&["n_embd"])?;
    // `n_inner` null stands for four times the width.
    let forward = hparams.get_u64("n_inner")?.unwrap_or(width.saturating_mul(4));
    keys.needed("context_length", hparams, &["n_positions"])?;
    keys.needed("embedding_length", hparams, &["n_embd"])?;
    keys.set_derived("block_count", "n_layer", hparams.n_layers()?)?;
    keys.set_derived("feed_forward_length", "n_inner", forward)?;
    // 64 of 256 dimensions of a head are rotated in GPT-J 6B.
    keys.needed("rope.dimension_count", hparams, &["rotary_dim"])?;
    keys.needed("attention.head_count", hparams, &["n_head"])?;
    keys.needed_number("attention.layer_norm_epsilon", hparams, &["layer_norm_epsilon"])?;
    keys.file_type_here();
    Ok(())
}
