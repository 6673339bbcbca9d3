//! Seed OSS.
//!
//! Config keys: those of every text model.
//!
//! Transforms: the norm before the feed-forward part has the name of one after attention.
//!
//! Source: `SeedOssModel` in `conversion/olmo.py`, and `MODEL_TENSORS[SEED_OSS]` in
//! `gguf-py/gguf/constants.py`.

use crate::prelude::*;

pub const SEED_OSS: Arch = Arch {
    name: "seed_oss",
    classes: &[Class::new("SeedOssForCausalLM")],
    example: "ByteDance-Seed/Seed-OSS-36B-Instruct",
    configs: &[ConfigClass::new("seed_oss")],
    tensors: &[rules::DECODER_ENDS, NORMS, rules::ATTENTION, rules::GATED_MLP],
    ..DECODER
};

const NORMS: &[TensorRule] = &[
    TensorRule::copy(&["model.layers.{bid}.input_layernorm"], "blk.{bid}.attn_norm"),
    // gguf-py lists no `ffn_norm` for this architecture, so its name map takes the next entry that has the name.
    TensorRule::copy(&["model.layers.{bid}.post_attention_layernorm"], "blk.{bid}.post_attention_norm"),
];
