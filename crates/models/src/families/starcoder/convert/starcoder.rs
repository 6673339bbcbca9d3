//! StarCoder, StarCoderBase and SantaCoder in the classes of transformers (GPTBigCode).
//!
//! Config keys: those of GPT-2 (`n_embd`, `n_head`, `n_layer`, `n_positions`). The feed-forward length
//! is four times the width whatever the config says, and all queries share one key head.
//!
//! Transforms: Q, K and V stay one matrix.
//!
//! Source: `StarCoderModel` in `conversion/starcoder.py`.

use crate::prelude::*;

pub const STARCODER: Arch = Arch {
    name: "starcoder",
    classes: &[Class::new("GPTBigCodeForCausalLM")],
    example: "bigcode/gpt_bigcode-santacoder",
    configs: &[ConfigClass::new("gpt_bigcode")],
    needs: &["n_embd", "n_layer", "n_head", "vocab_size"],
    tensors: &[ENDS, POSITIONS, LAYERS],
    keys,
    drops: |_, name| name.ends_with(".attn.bias").then_some("the causal mask is not a weight"),
    ..DECODER
};

/// Embedding, final norm and output of the decoders that name their parts as GPT-2 does.
pub const ENDS: &[TensorRule] = &[
    TensorRule::copy(&["transformer.wte"], "token_embd"),
    TensorRule::copy(&["transformer.ln_f"], "output_norm"),
    TensorRule::copy(&["lm_head"], "output").need(Need::Optional),
];

const POSITIONS: &[TensorRule] = &[TensorRule::copy(&["transformer.wpe"], "position_embd")];

/// Layers of the same, with Q, K and V in one matrix.
pub const LAYERS: &[TensorRule] = &[
    TensorRule::copy(&["transformer.h.{bid}.ln_1"], "blk.{bid}.attn_norm"),
    TensorRule::copy(&["transformer.h.{bid}.attn.c_attn"], "blk.{bid}.attn_qkv"),
    TensorRule::copy(&["transformer.h.{bid}.attn.c_proj"], "blk.{bid}.attn_output"),
    TensorRule::copy(&["transformer.h.{bid}.ln_2"], "blk.{bid}.ffn_norm"),
    TensorRule::copy(&["transformer.h.{bid}.mlp.c_fc"], "blk.{bid}.ffn_up"),
    TensorRule::copy(&["transformer.h.{bid}.mlp.c_proj"], "blk.{bid}.ffn_down"),
];

fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    // The reference writes one key head for these as well, with which nothing can run them.
    if let Some(many) = hparams.get("multi_query").filter(|value| **value == Json::Bool(false)) {
        return Err(bad("multi_query", many, "true: the architecture has one key head"));
    }
    gpt_keys(hparams, keys, 1)
}

/// Keys of the decoders whose config is that of GPT-2, in the order of the reference.
pub fn gpt_keys(hparams: &Hparams, keys: &mut Keys, kv_heads: u64) -> Result<(), ArchError> {
    // `StarCoderModel.set_gguf_parameters` calls no parent.
    keys.needed("context_length", hparams, &["n_positions"])?;
    keys.needed("embedding_length", hparams, &["n_embd"])?;
    let width = hparams.need_u64(&["n_embd"])?;
    // `4 * n_embd` in the reference, whatever `n_inner` says.
    keys.set_derived("feed_forward_length", "n_embd", width.saturating_mul(4))?;
    keys.set_derived("block_count", "n_layer", hparams.n_layers()?)?;
    keys.needed("attention.head_count", hparams, &["n_head"])?;
    // Multi-query attention: one key head in StarCoder, `num_query_groups` in CodeShell.
    keys.set_derived("attention.head_count_kv", "num_query_groups", kv_heads)?;
    keys.needed_number("attention.layer_norm_epsilon", hparams, &["layer_norm_epsilon"])?;
    keys.file_type_here();
    Ok(())
}
