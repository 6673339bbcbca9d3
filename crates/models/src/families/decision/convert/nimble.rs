//! Nimble: an adapter of Qwen 3.5, which then answers with the code of a choice.
//!
//! Config keys: those of Qwen 3.5.
//!
//! Source: `NimbleModel` in `conversion/lev.py` of llama.cpp build 11549, which is newer than the pinned one.

use gguf_checkpoint::{Marked, MarkingKey};

use super::ON_QWEN35;
use crate::prelude::*;

pub const NIMBLE: Arch = Arch {
    name: "nimble",
    classes: &[Class::wrapper("NimbleModel")],
    example: "bespokelabs/Bespoke-Nimble-9B-v3",
    keys: |hparams, keys| super::keys(hparams, keys, "nimble"),
    vocab: Route::new("nimble", |writer| super::vocab(writer, include_str!("../nimble.jinja"))),
    export: Export::NotExportable("the adapter of a Nimble model is merged"),
    ..ON_QWEN35
};

const CONFIG: &str = "schema_config.json";

pub const MARKED: Marked = Marked {
    files: &[CONFIG],
    key: Some(MarkingKey { file: CONFIG, at: "/task", text: Some("schema_candidate_classification_v2") }),
    class: "NimbleModel",
    ..Marked::PLAIN
};
