//! `gguf-convert MODEL.gguf DIR --to hf`: export of a GGUF file to a Hugging Face folder.

use std::path::Path;

use convert::{
    RunOptions, Watch,
    export::{self, ExportError, ExportOptions, ExportPlan},
};
use gguf::File;
use serde::Serialize;
use tensor::DType;

use crate::{
    commands::shared::{input_kind, table::table, write::warn_of_leftovers},
    failure::{EXIT_INTERRUPTED, Failure},
    hints,
    ui::{Ui, cancel_on_interrupt, human_bytes, printable},
};

/// The arguments of this mode.
#[derive(Debug, Clone, Copy)]
pub struct ToHf<'a> {
    /// The file.
    pub input: &'a Path,
    /// The folder.
    pub out: &'a Path,
    /// Type of the weights.
    pub dtype: DType,
    /// Bytes of weights that a file holds at most.
    pub shard_bytes: Option<u64>,
    /// Replace a folder that is there.
    pub force: bool,
    /// List, write nothing.
    pub dry_run: bool,
    /// Say it as JSON.
    pub json: bool,
    /// How to run.
    pub options: &'a RunOptions,
}

/// Writes the folder.
///
/// # Errors
/// Whatever stopped it, with the path that it is about.
pub fn run(job: &ToHf<'_>, ui: &Ui) -> Result<(), Failure> {
    let failed = |error: ExportError| {
        let hint = hints::export(&error);
        match error {
            // What is wrong inside of the input; all others name their path.
            ExportError::Layout(_)
            | ExportError::Convert(convert::Error::NonFinite { .. } | convert::Error::Overflow { .. }) => {
                Failure::at(job.input, error)
            }
            ExportError::Convert(convert::Error::Cancelled) => {
                Failure { code: EXIT_INTERRUPTED, ..Failure::new(error) }
            }
            error => Failure::new(error),
        }
        .hint(hint)
    };
    let file = super::show::open(job.input)?;
    input_kind::check_model(job.input)?;
    let defaults = ExportOptions::default();
    let shard_bytes = job.shard_bytes.unwrap_or(defaults.shard_bytes);
    let options = ExportOptions { dtype: job.dtype, shard_bytes };
    let plan = export::plan(&file, &options).map_err(failed)?;
    for note in &plan.layout.notes {
        ui.note(note);
    }
    let report = Report::new(job, &plan);
    if job.dry_run {
        return ui.data(&if job.json { report.json()? } else { report.text() });
    }
    warn_of_leftovers(job.out, ui);
    write(job, &file, &plan, ui).map_err(failed)?;
    let n_bytes = plan.n_bytes();
    ui.status(&format!("wrote {}: {n_bytes} bytes ({})", job.out.display(), human_bytes(n_bytes)));
    if job.json { ui.data(&report.json()?) } else { Ok(()) }
}

fn write(job: &ToHf<'_>, file: &File, plan: &ExportPlan, ui: &Ui) -> Result<(), ExportError> {
    let cancel = cancel_on_interrupt();
    let progress = ui.progress(export::input_bytes(file));
    let watch =
        Watch { cancel: &cancel, done: &|_, bytes| progress.add(bytes), sources: &[file.bytes().clone()] };
    export::write(file, job.input, plan, job.out, job.force, job.options, watch)
}

/// What is going to be written, or has been.
#[derive(Debug, Serialize)]
struct Report {
    input: String,
    output: String,
    dtype: &'static str,
    dry_run: bool,
    bytes: u64,
    files: Vec<ReportedFile>,
    notes: Vec<String>,
}

#[derive(Debug, Serialize)]
struct ReportedFile {
    name: String,
    bytes: u64,
    tensors: usize,
}

impl Report {
    fn new(job: &ToHf<'_>, plan: &ExportPlan) -> Report {
        let small = plan.layout.files.iter().map(|(name, bytes)| ReportedFile {
            name: name.clone(),
            bytes: bytes.len() as u64,
            tensors: 0,
        });
        let weights = plan.shards.iter().map(|shard| ReportedFile {
            name: shard.file.clone(),
            bytes: shard.n_bytes,
            tensors: shard.tensors.len(),
        });
        Report {
            input: job.input.display().to_string(),
            output: job.out.display().to_string(),
            dtype: plan.dtype.name(),
            dry_run: job.dry_run,
            bytes: plan.n_bytes(),
            files: small.chain(weights).collect(),
            notes: plan.layout.notes.clone(),
        }
    }

    fn json(&self) -> Result<String, Failure> {
        Ok(serde_json::to_string_pretty(self).map_err(Failure::new)? + "\n")
    }

    fn text(&self) -> String {
        let mut rows = vec![["file", "tensors", "bytes"].map(str::to_owned).to_vec()];
        for file in &self.files {
            let tensors = if file.tensors == 0 { String::new() } else { file.tensors.to_string() };
            rows.push(vec![printable(&file.name), tensors, file.bytes.to_string()]);
        }
        let (bytes, size) = (self.bytes, human_bytes(self.bytes));
        format!(
            "{}: {}\n\n{}\nfolder: {bytes} bytes ({size})\n",
            self.output,
            self.dtype,
            table(&rows, &[1, 2])
        )
    }
}
