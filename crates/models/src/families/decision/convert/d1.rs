//! D1: LFM2-VL that answers with the code of an option.
//!
//! Config keys: those of LFM2.
//!
//! Source: `D1Model` in `conversion/lfm2.py` of llama.cpp build 11549, which is newer than the pinned one.

use gguf_checkpoint::Marked;

use crate::families::lfm2::convert::lfm2::{self, LFM2};
use crate::prelude::*;

pub const D1: Arch = Arch {
    name: "d1",
    written: Some("lfm2"),
    classes: &[Class::wrapper("D1Model")],
    example: "LiquidAI/d1-3b",
    configs: &[],
    keys: |hparams, keys| {
        lfm2::keys(hparams, keys)?;
        keys.set_prefixed("decision.type", "lfm2-d1".into());
        Ok(())
    },
    vocab: Route::new("d1", |writer| super::vocab(writer, include_str!("../d1.jinja"))),
    export: Export::NotExportable("the folder of a D1 model has a program that the file lacks"),
    ..LFM2
};

pub const MARKED: Marked = Marked { auto_model: Some(".D1Model"), class: "D1Model", ..Marked::PLAIN };
