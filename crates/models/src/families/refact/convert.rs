//! Refact 1.6B.
//!
//! Config keys: GPT-2's names for the usual ones; one key head; the length of the feed-forward part follows from the width.
//!
//! Transforms: keys and values are one matrix, as are gate and up; both are taken apart in halves.
//!
//! Source: `RefactModel` in `conversion/refact.py`.

use crate::prelude::*;

pub const REFACT: Arch = Arch {
    name: "refact",
    classes: &[Class::new("GPTRefactForCausalLM")],
    example: "smallcloudai/Refact-1_6-base",
    needs: &["n_embd", "n_layer", "n_head", "n_positions", "vocab_size"],
    tensors: &[ENDS, LAYERS],
    keys,
    vocab: ROUTE,
    ..DECODER
};

/// Byte-level BPE. Its fill-in-the-middle ids have no keys in the reference.
const ROUTE: Route = Route { name: "refact", ..Route::GPT2 };

const ENDS: &[TensorRule] = &[
    TensorRule::copy(&["transformer.wte"], "token_embd"),
    TensorRule::copy(&["ln_f"], "output_norm"),
    TensorRule::copy(&["lm_head"], "output").need(Need::Optional),
];

const LAYERS: &[TensorRule] = &[
    TensorRule::copy(&["transformer.h.{bid}.ln_1"], "blk.{bid}.attn_norm"),
    TensorRule::copy(&["transformer.h.{bid}.attn.q"], "blk.{bid}.attn_q"),
    // (2 head_dim, n_embd), as there is one key head: keys above values.
    TensorRule::part(&["transformer.h.{bid}.attn.kv"], "blk.{bid}.attn_k", rules::first_half),
    TensorRule::part(&["transformer.h.{bid}.attn.kv"], "blk.{bid}.attn_v", rules::second_half),
    TensorRule::copy(&["transformer.h.{bid}.attn.c_proj"], "blk.{bid}.attn_output"),
    TensorRule::copy(&["transformer.h.{bid}.ln_2"], "blk.{bid}.ffn_norm"),
    // (2 f, n_embd): gate above up.
    TensorRule::part(&["transformer.h.{bid}.mlp.gate_up_proj"], "blk.{bid}.ffn_gate", rules::first_half),
    TensorRule::part(&["transformer.h.{bid}.mlp.gate_up_proj"], "blk.{bid}.ffn_up", rules::second_half),
    TensorRule::copy(&["transformer.h.{bid}.mlp.c_proj"], "blk.{bid}.ffn_down"),
];

fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    keys.needed("context_length", hparams, &["n_positions"])?;
    keys.needed("embedding_length", hparams, &["n_embd"])?;
    // Two thirds of four widths, rounded up to a multiple of 256.
    // At n_embd = 2048: 5461, hence 5632.
    let length = (hparams.need_u64(&["n_embd"])?.saturating_mul(8) / 3).div_ceil(256).saturating_mul(256);
    keys.set_derived("feed_forward_length", "", length)?;
    keys.needed("block_count", hparams, &["n_layer"])?;
    keys.needed("attention.head_count", hparams, &["n_head"])?;
    keys.set_derived("attention.head_count_kv", "", 1)?;
    keys.needed_number("attention.layer_norm_rms_epsilon", hparams, &["layer_norm_epsilon"])?;
    keys.file_type_here();
    Ok(())
}
