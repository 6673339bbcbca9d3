//! `gguf-convert ADAPTER [OUT] --base DIR`: a LoRA adapter as PEFT saves it to an adapter file.

use std::path::{Path, PathBuf};

use convert::{AdapterInput, Error, recipes::Recipe};
use gguf::Endian;
use source::{Checkpoint, Folder};

use crate::{
    commands::shared::{
        conversion_run::{self, OpenInput, RunArgs, failure},
        layout_notes::Notes,
        plan_report::stored_as,
        quantize_options::Settings,
    },
    failure::Failure,
    ui::Ui,
};

/// The arguments of this mode.
#[derive(Debug, Clone, Copy)]
pub struct Lora<'a> {
    /// The adapter's folder as it was named.
    pub input: &'a Path,
    /// The folder itself.
    pub folder: &'a Folder,
    /// The folder of its base model, where one was named.
    pub base: Option<&'a Folder>,
    /// Types; f32 where there is none.
    pub types: &'a [&'static Recipe],
    /// The byte order of the file.
    pub endian: Endian,
    /// How to resolve.
    pub arch: &'a arch::Options,
}

/// Writes the file.
///
/// # Errors
/// Whatever stopped it, with the path that it is about.
pub fn run(job: &Lora<'_>, args: &RunArgs<'_>, ui: &Ui) -> Result<(), Failure> {
    let failed = |error| failure(job.input, error);
    let adapter = source::open_adapter(job.folder.clone()).map_err(|error| failed(Error::Source(error)))?;
    let base = base_of(job, &adapter)?;
    // Weights are not needed; where they are, shapes are compared.
    let base = source::open(base.clone())
        .or_else(|_| source::open_without_weights(base.clone()))
        .map_err(Error::Source)
        .and_then(|base| convert::in_usual_form(base, job.arch))
        .map_err(|error| failure(base.path(), error))?;
    let input = AdapterInput::new(job.folder.path(), adapter, &base, job.arch).map_err(failed)?;
    let (adapter, layout) = (input.adapter(), input.layout());
    let mut notes = Notes::of(&adapter.notes, &[layout]);
    if !layout.warnings.is_empty() {
        notes.notes.push("`gguf-convert BASE --lora ADAPTER --with-mmproj` merges all pairs".to_owned());
    }
    let open = OpenInput {
        path: job.input,
        files: Vec::new(),
        format: adapter.format,
        architecture: layout.architecture.to_owned(),
        notes,
        dropped: layout.dropped.clone(),
        stored_as: layout.tensors.iter().map(|tensor| stored_as(adapter, &tensor.data)).collect(),
        repacked: Vec::new(),
        input,
    };
    let types = match job.types {
        [] => vec![Recipe::from_name("F32").map_err(Failure::new)?],
        types => types.to_vec(),
    };
    conversion_run::run(open, types, &Settings::of_byte_order(job.endian), args, ui)
}

/// The folder of the base model: as named, or as the adapter names it, if that is a folder here.
fn base_of(job: &Lora<'_>, adapter: &Checkpoint) -> Result<Folder, Failure> {
    let named =
        adapter.config.get("base_model_name_or_path").and_then(|name| name.as_str()).unwrap_or_default();
    if let Some(base) = job.base {
        if !source::is_adapter(base) || base.path().join("config.json").is_file() {
            return Ok(base.clone());
        }
        let message = match named {
            "" => format!("{}, expected its base model", adapter.format),
            named => format!("{}, expected its base model `{named}`", adapter.format),
        };
        let is_mlx = adapter.format == source::MLX_ADAPTER;
        let fuse = is_mlx.then_some("`mlx_lm.fuse` merges the two");
        let hint = "give the base model's folder with --base; config.json is enough";
        return Err(Failure::at(base.path(), message).hint([hint]).hint(fuse));
    }
    let folder = PathBuf::from(named);
    if !named.is_empty() && folder.join("config.json").is_file() {
        return Ok(Folder::at(folder));
    }
    let message = match named {
        "" => "an adapter needs the config of its base model".to_owned(),
        named => format!("an adapter needs the config of its base model, `{named}`"),
    };
    Err(Failure::at(job.input, message).hint(["give its folder with --base; config.json is enough"]))
}
