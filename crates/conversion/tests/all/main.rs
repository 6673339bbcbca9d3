//! The conversion through the public API of the crate.
#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

mod codes;
mod comfyui_file;
mod diffusion;
mod diffusion_merge;
mod diffusion_types;
mod export;
mod families;
mod foreign;
mod forms;
mod image_export;
mod imatrix;
mod marked;
mod module_order;
mod pipeline;
mod projectors;
mod recipes;
mod repack;
mod resume;
mod row_encoder;
mod torch;
mod wide;

use std::path::Path;

use gguf_checkpoint::Folder;
use gguf_conversion::{CheckpointInput, Conversion, Error, RunOptions};

/// A folder that is read with the facts about all families.
fn folder(path: &Path) -> Folder {
    Folder::at(path).forms(gguf_models::FORMS)
}

fn write(input: CheckpointInput, recipe: &str, path: &Path) -> Result<(), Error> {
    Conversion::new(input).recipe(recipe)?.plan()?.check()?.write(path, &RunOptions::default())?;
    Ok(())
}
