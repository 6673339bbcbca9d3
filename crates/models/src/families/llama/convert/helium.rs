//! Helium, by Kyutai: a llama that rotates neighboring dimensions.
//!
//! Config keys: those of llama.
//!
//! Transforms: none. Rows of Q and K already have the order that ggml wants.
//!
//! Source: `HeliumForCausalLM` of transformers 5.24; llama.cpp has no class for it, and its graph of `llama` is the same model.

use crate::families::llama::convert::llama::LLAMA;
use crate::prelude::*;

pub const HELIUM: Arch = Arch {
    name: "helium",
    written: Some("llama"),
    classes: &[Class::new("HeliumForCausalLM")],
    example: "kyutai/helium-1-2b",
    configs: &[ConfigClass::new("helium")],
    tensors: &[rules::DECODER_ENDS, rules::PRE_NORMS, rules::ATTENTION, rules::GATED_MLP],
    rename: DECODER.rename,
    drops: DECODER.drops,
    export: Export::NotExportable("exported as `LlamaForCausalLM`, whose files have the same tensors"),
    ..LLAMA
};
