//! `gguf-convert SRC [OUT] --vocab-only`: metadata and tokenizer without weights.

use std::path::Path;

use convert::{Error, recipes::FileType};
use gguf::Endian;
use serde::Serialize;
use source::Folder;

use crate::{
    commands::shared::{
        layout_notes::Notes,
        write::{check_output, make_folder_of},
    },
    failure::Failure,
    ui::{Ui, human_bytes},
};

/// The arguments of this mode.
#[derive(Debug, Clone, Copy)]
pub struct VocabOnly<'a> {
    /// The checkpoint folder as it was named.
    pub input: &'a Path,
    /// The folder itself.
    pub folder: &'a Folder,
    /// The output, where one was named.
    pub out: Option<&'a Path>,
    /// The file type to note; that of the weights where there is none.
    pub file_type: Option<FileType>,
    /// The byte order of the file.
    pub endian: Endian,
    /// How to resolve.
    pub options: &'a arch::Options,
    /// Replace a file that is there.
    pub force: bool,
    /// Write nothing.
    pub dry_run: bool,
    /// Say it as JSON.
    pub json: bool,
}

/// What is going to be written, or has been.
#[derive(Debug, Serialize)]
struct Report {
    input: String,
    output: String,
    architecture: &'static str,
    tokenizer: String,
    tokens: usize,
    keys: usize,
    bytes: u64,
    dry_run: bool,
    notes: Vec<String>,
}

/// Writes the file.
///
/// # Errors
/// Whatever stopped it; `failed` adds the path.
pub fn run(job: &VocabOnly<'_>, failed: impl Fn(Error) -> Failure, ui: &Ui) -> Result<(), Failure> {
    let report = make(job, ui).map_err(failed)?;
    let Report { output, bytes, tokens, .. } = &report;
    if !job.dry_run {
        ui.status(&format!("wrote {output}: {bytes} bytes ({}), {tokens} tokens", human_bytes(*bytes)));
    }
    match (job.json, job.dry_run) {
        (true, _) => ui.data(&(serde_json::to_string_pretty(&report).map_err(Failure::new)? + "\n")),
        (false, true) => {
            let Report { architecture, tokenizer, keys, .. } = &report;
            ui.data(&format!(
                "{output}: {architecture}, {tokens} tokens of kind {tokenizer}, {keys} keys, {bytes} bytes\n"
            ))
        }
        (false, false) => Ok(()),
    }
}

fn make(job: &VocabOnly<'_>, ui: &Ui) -> Result<Report, Error> {
    // Weights say no more than the type that the reference notes; without them it is f16.
    let checkpoint = source::open(job.folder.clone())
        .or_else(|_| source::open_without_weights(job.folder.clone()))
        .map_err(Error::Source)?;
    let checkpoint = convert::in_usual_form(checkpoint, job.options)?;
    let layout = convert::resolve(&checkpoint, job.options)?;
    let file_type = job.file_type.unwrap_or_else(|| convert::guessed_file_type(&checkpoint));
    let plan = convert::plan_vocab(&layout, file_type, job.endian)?;
    let default_name = arch::vocab_file_name(&layout.metadata);
    let path = convert::output_path(job.out, &default_name, &format!("{file_type:?}"))?;
    check_output(&path, job.out, job.folder.path(), job.force || job.dry_run)?;
    let notes = Notes::of(&checkpoint.notes, &[&layout]);
    notes.tell(ui);
    let find = |key: &str| layout.metadata.get(key);
    let report = Report {
        input: job.input.display().to_string(),
        output: path.display().to_string(),
        architecture: layout.architecture,
        tokenizer: find("tokenizer.ggml.model").and_then(gguf::Value::as_str).unwrap_or_default().to_owned(),
        tokens: find("tokenizer.ggml.tokens").and_then(gguf::Value::as_array).map_or(0, gguf::Array::len),
        // Those of the file type stand in the plan only.
        keys: layout.metadata.len() + 2,
        bytes: plan.unpadded_header_bytes().len() as u64,
        dry_run: job.dry_run,
        notes: notes.all(),
    };
    if !job.dry_run {
        make_folder_of(&path)?;
        convert::write_vocab(&plan, &path, job.force)?;
    }
    Ok(report)
}
