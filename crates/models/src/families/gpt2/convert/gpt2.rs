//! GPT-2, as OpenAI and transformers name its tensors.
//!
//! Config keys: in their own order; the feed-forward length is four times the width, whatever the config
//! says. Newer files have the context length only under `n_positions`, on which the reference stops.
//!
//! Transforms: the projections are Conv1D, whose matrices are stored transposed; their columns become rows.
//!
//! Source: `GPT2Model` in `conversion/gpt2.py`, except for the causal masks of older files, which the
//! reference means to leave out but stops on.

use crate::prelude::*;

pub const GPT2: Arch = Arch {
    name: "gpt2",
    classes: &[Class::new("GPT2LMHeadModel")],
    example: "openai-community/gpt2",
    configs: &[ConfigClass::new("gpt2")],
    needs: &["n_embd", "n_layer", "n_head"],
    tensors: &[ENDS, LAYERS],
    keys,
    drops: causal_mask,
    rename: |_, name| (!name.starts_with("transformer.")).then(|| format!("transformer.{name}")),
    harmless: &["scale_attn_weights=true"],
    ..DECODER
};

const ENDS: &[TensorRule] = &[
    TensorRule::copy(&["transformer.wte"], "token_embd"),
    TensorRule::copy(&["transformer.wpe"], "position_embd"),
    TensorRule::copy(&["transformer.ln_f"], "output_norm"),
    TensorRule::copy(&["transformer.lm_head"], "output").need(Need::Optional),
];

const LAYERS: &[TensorRule] = &[
    TensorRule::copy(&["transformer.h.{bid}.ln_1"], "blk.{bid}.attn_norm"),
    // Conv1D computes x W with W (in, out); ggml computes W x with W (out, in).
    TensorRule::columns(&["transformer.h.{bid}.attn.c_attn"], "blk.{bid}.attn_qkv"),
    TensorRule::columns(&["transformer.h.{bid}.attn.c_proj"], "blk.{bid}.attn_output"),
    TensorRule::copy(&["transformer.h.{bid}.ln_2"], "blk.{bid}.ffn_norm"),
    TensorRule::columns(&["transformer.h.{bid}.mlp.c_fc"], "blk.{bid}.ffn_up"),
    TensorRule::columns(&["transformer.h.{bid}.mlp.c_proj"], "blk.{bid}.ffn_down"),
];

/// Causal masks that older files store next to the attention weights.
pub fn causal_mask(_: &Hparams, name: &str) -> Option<&'static str> {
    let is_mask = name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias");
    is_mask.then_some("the causal mask is not a weight")
}

fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    let width = hparams.need_u64(&["n_embd"])?;
    // The order of `GPT2Model.set_gguf_parameters`, which calls no parent. No `head_count_kv`: readers
    // take the number of heads.
    keys.set_derived("block_count", "n_layer", hparams.n_layers()?)?;
    // `n_ctx` in files of OpenAI's time, which transformers 5 saves no more.
    keys.needed("context_length", hparams, &["n_ctx", "n_positions"])?;
    keys.needed("embedding_length", hparams, &["n_embd"])?;
    keys.set_derived("feed_forward_length", "n_embd", width.saturating_mul(4))?;
    keys.needed("attention.head_count", hparams, &["n_head"])?;
    keys.needed_number("attention.layer_norm_epsilon", hparams, &["layer_norm_epsilon"])?;
    keys.file_type_here();
    Ok(())
}
