//! Arcee AFM.
//!
//! Config keys: those of llama.
//!
//! Transforms: those of llama; the feed-forward part has no gate.
//!
//! Source: `ArceeModel` in `conversion/llama.py`.

use crate::families::llama::convert::llama;
use crate::families::llama::convert::vocab;
use crate::prelude::*;

pub const ARCEE: Arch = Arch {
    name: "arcee",
    classes: &[Class::new("ArceeForCausalLM")],
    example: "arcee-ai/AFM-4.5B",
    configs: &[ConfigClass::new("arcee")],
    tensors: &[rules::DECODER_ENDS, rules::PRE_NORMS, rules::ATTENTION_PERMUTED, rules::UNGATED_MLP],
    keys: llama::keys,
    computed: llama::computed,
    vocab: vocab::ROUTE,
    ..DECODER
};
