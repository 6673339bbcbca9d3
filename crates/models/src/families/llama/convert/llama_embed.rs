//! Llama-Embed-Nemotron: llama that looks both ways and makes vectors of texts.
//!
//! Config keys: those of llama. That it looks both ways, llama.cpp knows by the name.
//!
//! Transforms: those of llama.
//!
//! Source: `LlamaEmbedNemotronModel` in `conversion/llama.py`.

use crate::families::llama::convert::llama::LLAMA;
use crate::prelude::*;

pub const LLAMA_EMBED: Arch = Arch {
    name: "llama-embed",
    // A checkpoint of the model without an output: its names lack `model.`.
    classes: &[Class::inner("LlamaBidirectionalModel", "model.")],
    example: "nvidia/llama-embed-nemotron-8b",
    // Its `model_type` is its own: the file is read as it stands.
    configs: &[],
    harmless: &["hidden_act=silu"],
    export: Export::Verified,
    ..LLAMA
};
