//! Checkpoints of every format, valid and invalid.
#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

mod bad_codes;
mod bad_dialects;
mod bad_input;
mod dialects;
mod fp4;
mod fp8;
mod ggml_legacy;
mod golden;
mod module_order;
mod recognition;
mod torch;

use std::path::Path;

use gguf_checkpoint::{Checkpoint, Error, Folder};

/// Opens a folder with the facts about all families.
fn open(folder: &Path) -> Result<Checkpoint, Error> {
    gguf_checkpoint::open(Folder::at(folder).forms(gguf_models::FORMS))
}
