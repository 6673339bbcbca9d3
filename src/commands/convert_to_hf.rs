//! `gguf-convert export GGUF DIR`: export of a GGUF file to a Hugging Face folder.

use std::{num::NonZeroUsize, path::PathBuf};

use clap::{Args, ValueHint};
use gguf_container::File;
use gguf_conversion::{
    NonFinite, RunOptions, Watch,
    export::{self, ExportError, ExportOptions, ExportPlan},
};
use gguf_toolkit::{
    input_kind,
    sizes::parse_size,
    table::table,
    text::{human_bytes, printable},
    write::warn_of_leftovers,
};
use gguf_types::DType;
use serde::Serialize;

use super::{
    Command,
    convert::args::TypeArgs,
    shared::{
        cpu_level::cpu_level, output_args::OutputArgs, tensor_args::output_parser, threads::parse_threads,
    },
};
use crate::{
    failure::Failure,
    ui::{Ui, cancel_on_interrupt},
};

/// The row of [`super::COMMANDS`].
pub const COMMAND: Command = Command {
    verb: Some("export"),
    about: "Export a GGUF file to a checkpoint folder",
    examples: EXAMPLES,
    define: ExportArgs::augment_args,
    run: |matches, ui| run(Command::args(matches)?, ui),
    ..Command::of("gguf-convert")
};

const EXAMPLES: &str = "\
Examples:
  gguf-convert export model-Q8_0.gguf folder --type bf16
  gguf-convert export model-BF16.gguf folder --dry-run

Converting the checkpoint back to GGUF with the same type gives the same tensors.
`gguf-convert architectures` lists the architectures that can be exported.";

#[derive(Debug, Args)]
#[command(mut_arg("types", |arg| arg.long_help("Set the output type, for example bf16.\n\nOne of bf16 (the default), f16 and f32.")))]
struct ExportArgs {
    /// GGUF file, or any shard of a split model.
    #[arg(value_hint = ValueHint::FilePath)]
    gguf: PathBuf,
    /// Folder to write.
    #[arg(value_hint = ValueHint::DirPath, value_parser = output_parser())]
    dir: PathBuf,
    #[command(flatten)]
    types: TypeArgs,
    /// Limit each shard to SIZE of tensor data.
    ///
    /// SIZE is in bytes or has a unit: K, M, G or KB, MB, GB (powers of 1000), or KiB, MiB, GiB.
    #[arg(long, alias = "shard-bytes", value_name = "SIZE", value_parser = parse_size)]
    split_max_size: Option<u64>,
    /// Convert NaNs and infinities instead of failing.
    #[arg(long)]
    allow_nonfinite: bool,
    /// Use N threads.
    ///
    /// Default: one per core. The output does not depend on the number of threads.
    #[arg(short = 'j', long, value_name = "N", value_parser = parse_threads)]
    threads: Option<NonZeroUsize>,
    #[command(flatten)]
    output: OutputArgs,
}

fn run(args: ExportArgs, ui: &Ui) -> Result<(), Failure> {
    let dtype = match &args.types.recipes()[..] {
        [] if args.types.types.is_empty() => DType::BF16,
        [recipe] if recipe.default.is_float() => recipe.default,
        _ => return Err(Failure::usage("expected one --type for export: f32, f16 or bf16")),
    };
    let failed = |error: ExportError| match error {
        // Problems inside the input. All others name their path.
        ExportError::Layout(_)
        | ExportError::Convert(
            gguf_conversion::Error::NonFinite { .. } | gguf_conversion::Error::Overflow { .. },
        ) => Failure::at(&args.gguf, error),
        error => Failure::new(error),
    };
    let file = gguf_toolkit::show::open(&args.gguf)?;
    input_kind::check_model(&args.gguf)?;
    let shard_bytes = args.split_max_size.unwrap_or(ExportOptions::default().shard_bytes);
    let plan = export::plan(&file, &ExportOptions { dtype, shard_bytes }).map_err(failed)?;
    for note in &plan.layout.notes {
        ui.note(note);
    }
    let report = Report::new(&args, &plan);
    if args.output.dry_run {
        return if args.output.json { ui.json(&report) } else { ui.data(&report.text()) };
    }
    warn_of_leftovers(&args.dir, ui);
    let nonfinite = if args.allow_nonfinite { NonFinite::Allow } else { NonFinite::Refuse };
    let options = RunOptions::default().threads(args.threads).level(cpu_level()?).nonfinite(nonfinite);
    write(&args, (&file, &plan), &options, ui).map_err(failed)?;
    let n_bytes = plan.n_bytes();
    ui.status(&format!("wrote {}: {n_bytes} bytes ({})", args.dir.display(), human_bytes(n_bytes)));
    if args.output.json { ui.json(&report) } else { Ok(()) }
}

fn write(
    args: &ExportArgs,
    (file, plan): (&File, &ExportPlan),
    options: &RunOptions,
    ui: &Ui,
) -> Result<(), ExportError> {
    let cancel = cancel_on_interrupt();
    let progress = ui.progress(export::input_bytes(file));
    let watch =
        Watch { cancel: &cancel, done: &|_, bytes| progress.add(bytes), sources: &[file.bytes().clone()] };
    export::write(file, &args.gguf, plan, &args.dir, args.output.force, options, watch)
}

/// The planned or finished export.
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
    fn new(args: &ExportArgs, plan: &ExportPlan) -> Report {
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
            input: args.gguf.display().to_string(),
            output: args.dir.display().to_string(),
            dtype: plan.dtype.name(),
            dry_run: args.output.dry_run,
            bytes: plan.n_bytes(),
            files: small.chain(weights).collect(),
            notes: plan.layout.notes.clone(),
        }
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
