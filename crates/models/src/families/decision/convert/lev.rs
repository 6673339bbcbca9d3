//! Lev: an adapter of Qwen 3.5, which then answers with the letter of an option or a digit.
//!
//! Config keys: those of Qwen 3.5; temperatures of `calibration.json`. The head for large sets of options (mode B) is not converted.
//!
//! Source: `LevModel` in `conversion/lev.py` of llama.cpp build 11549, which is newer than the pinned one.

use gguf_checkpoint::{Marked, SideFile};

use super::ON_QWEN35;
use crate::prelude::*;

pub const LEV: Arch = Arch {
    name: "lev",
    classes: &[Class::wrapper("LevModel")],
    example: "interfaze-ai/lev",
    keys: |hparams, keys| {
        super::keys(hparams, keys, "lev")?;
        let values = hparams.under("decision.temperatures.");
        if values.is_empty() {
            return Err(missing_in(CONFIG, "temperatures"));
        }
        for (name, value) in values {
            // KIND:MODE, or KIND:MODE:NUMBER_OF_OPTIONS.
            let mut parts = name.split(':');
            let (Some(kind), Some(mode)) = (parts.next(), parts.next()) else {
                return Err(bad_in(CONFIG, "temperatures", &name.into(), "a kind of question and a mode"));
            };
            if mode == "A" {
                let key: Vec<&str> = ["decision.temperature", kind].into_iter().chain(parts).collect();
                keys.set_prefixed(&key.join("."), Value::F32(to_f32(name, value)?));
            }
        }
        Ok(())
    },
    vocab: Route::new("lev", |writer| super::vocab(writer, include_str!("../lev.jinja"))),
    export: Export::NotExportable("the adapter of a Lev model is merged"),
    ..ON_QWEN35
};

const CONFIG: &str = "calibration.json";

pub const MARKED: Marked = Marked {
    files: &["lev_release.json"],
    class: "LevModel",
    config: Some(SideFile { file: CONFIG, prefix: "decision." }),
    ..Marked::PLAIN
};
