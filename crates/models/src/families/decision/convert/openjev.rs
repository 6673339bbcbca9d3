//! OpenJev: Qwen 3.5 that answers with the letter of an option.
//!
//! Config keys: those of Qwen 3.5, and constant temperatures.
//!
//! Source: `OpenJevModel` in `conversion/qwen.py` of llama.cpp build 11549, which is newer than the pinned one.

use gguf_checkpoint::Marked;

use super::{ON_QWEN35, Temperatures};
use crate::prelude::*;

pub const OPENJEV: Arch = Arch {
    name: "openjev",
    classes: &[Class::wrapper("OpenJevModel")],
    example: "openjev/openjev",
    keys: |hparams, keys| {
        super::keys(hparams, keys, "openjev")?;
        // Calibration of the model's own program. The second one is applied to the first.
        let (usual, of_noul) = (0.85_f64, 1.829_074);
        let (choice, noul) = (usual as f32, (usual * of_noul) as f32);
        Temperatures { choice, score: choice, noul }.set(keys);
        Ok(())
    },
    caveats: |_| {
        let reason = "the prompt and the temperatures are those of llama.cpp's converter";
        vec![format!("`{PROGRAM}` is not read; {reason}")]
    },
    vocab: Route::new("openjev", |writer| super::vocab(writer, include_str!("../openjev.jinja"))),
    export: Export::NotExportable("the folder of an OpenJev model has a program that the file lacks"),
    ..ON_QWEN35
};

const PROGRAM: &str = "helper/shim.py";

pub const MARKED: Marked = Marked { files: &[PROGRAM], class: "OpenJevModel", ..Marked::PLAIN };
