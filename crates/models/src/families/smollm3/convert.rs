//! SmolLM 3.
//!
//! Config keys: those of llama. Layers without RoPE are not written; llama.cpp has them built in.
//!
//! Transforms: those of llama.
//!
//! Source: `SmolLM3Model` in `conversion/llama.py`.

use crate::families::llama::convert::llama;
use crate::families::llama::convert::vocab;
use crate::prelude::*;
use gguf_layout::built_in::is_zero_every;

pub const SMOLLM3: Arch = Arch {
    name: "smollm3",
    classes: &[Class::new("SmolLM3ForCausalLM")],
    example: "HuggingFaceTB/SmolLM3-3B",
    configs: &[ConfigClass::new("smollm3")],
    tensors: &[rules::DECODER_ENDS, rules::PRE_NORMS, rules::ATTENTION_PERMUTED, rules::GATED_MLP],
    // Every fourth layer is not rotated (`no_rope_layers`). `SmolLM3Model` writes no key for it: the
    // graph has the period.
    keys: llama::keys,
    computed: llama::computed,
    vocab: vocab::ROUTE,
    built_in: &[BuiltIn::unless("no_rope_layers", "no rotation in every fourth layer", |_, flags| {
        is_zero_every(4, flags)
    })],
    ..DECODER
};
