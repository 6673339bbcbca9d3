//! Xverse.
//!
//! Config keys: those of every text model, the layout of the tensors, the rotated dimensions.
//!
//! Transforms: rows of Q and K are permuted like those of llama.
//!
//! Source: `XverseModel` in `conversion/xverse.py`.

use crate::families::baichuan::convert as baichuan;
use crate::prelude::*;

pub const XVERSE: Arch = Arch {
    name: "xverse",
    classes: &[Class::new("XverseForCausalLM")],
    example: "xverse/XVERSE-7B",
    tensors: &[rules::DECODER_ENDS, rules::PRE_NORMS, ATTENTION, rules::GATED_MLP],
    keys: baichuan::keys,
    vocab: Route::new("xverse", |writer| writer.llama_without_scores()),
    export: Export::NotExportable("tokenizer scores are not stored"),
    harmless: &["hidden_act=silu"],
    ..DECODER
};

const ATTENTION: &[TensorRule] = &[
    // Rows n and n + dim / 2 of a head become neighbours, as llama.cpp rotates them.
    TensorRule::part(&["model.layers.{bid}.self_attn.q_proj"], "blk.{bid}.attn_q", |hparams, _| {
        Ok(RowMap::RopePermute { n_head: hparams.n_heads()? })
    }),
    TensorRule::part(&["model.layers.{bid}.self_attn.k_proj"], "blk.{bid}.attn_k", |hparams, _| {
        // Baichuan's function, with its division.
        Ok(RowMap::RopePermute { n_head: baichuan::key_heads(hparams)? })
    }),
    TensorRule::copy(&["model.layers.{bid}.self_attn.v_proj"], "blk.{bid}.attn_v"),
    TensorRule::copy(&["model.layers.{bid}.self_attn.o_proj"], "blk.{bid}.attn_output"),
];
