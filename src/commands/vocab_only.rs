//! `gguf-convert vocab SRC [OUT]`: metadata and tokenizer without weights.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use gguf_checkpoint::Folder;
use gguf_conversion::{Error, recipes::FileType};
use gguf_toolkit::{
    conversion_run::failure,
    layout_notes::Notes,
    text::human_bytes,
    write::{check_output, make_folder_of},
};
use serde::Serialize;

use super::{
    Command,
    convert::{
        args::{ArchArgs, NamingArgs, SourceArgs, TypeArgs},
        is_of_converter,
    },
    shared::{
        hub,
        output_args::OutputArgs,
        tensor_args::{byte_order, output_parser},
    },
};
use crate::{failure::Failure, ui::Ui};

/// The row of [`super::COMMANDS`].
pub const COMMAND: Command = Command {
    verb: Some("vocab"),
    about: "Write metadata and tokenizer, without weights",
    examples: EXAMPLES,
    define: VocabArgs::augment_args,
    run: |matches, ui| run(Command::args(matches)?, ui),
    ..Command::of("gguf-convert")
};

const EXAMPLES: &str = "\
Examples:
  gguf-convert vocab Llama-3.2-1B llama-vocab.gguf
  gguf-convert vocab hf://meta-llama/Llama-3.2-1B --dry-run";

#[derive(Debug, Args)]
#[command(mut_arg("types", |arg| arg.long_help("Set the output type, for example bf16.\n\nOne of f32, f16, bf16 and q8_0. It only sets `general.file_type`. Default: the type of the weights.")))]
struct VocabArgs {
    /// Checkpoint folder or hf://OWNER/MODEL[@REVISION].
    ///
    /// Weights are not needed.
    #[arg(value_hint = ValueHint::AnyPath)]
    src: PathBuf,
    /// Output file or folder.
    #[arg(value_hint = ValueHint::AnyPath, value_parser = output_parser())]
    out: Option<PathBuf>,
    #[command(flatten)]
    types: TypeArgs,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    source: SourceArgs,
    #[command(flatten)]
    arch: ArchArgs,
    #[command(flatten)]
    naming: NamingArgs,
    /// Write big-endian files, for example for s390x.
    #[arg(long, hide_short_help = true)]
    big_endian: bool,
}

/// The planned or written file.
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

fn run(args: VocabArgs, ui: &Ui) -> Result<(), Failure> {
    let file_type = match &args.types.recipes()[..] {
        [] => None,
        [recipe] if is_of_converter(recipe) => Some(recipe.file_type),
        _ => return Err(Failure::usage("expected one --type for vocab: f32, f16, bf16 or q8_0")),
    };
    let input = hub::input(&args.src, hub::Wanted { weights: false, keep: false, out: None }, ui)?;
    let options = args.arch.options(&args.naming, ui)?;
    let options = gguf_models::Options { vocab_only: true, ..options };
    let folder = args.source.apply(&input.folder);
    let report =
        make(&args, (&folder, file_type, &options), ui).map_err(|error| failure(&args.src, error))?;
    let Report { output, bytes, tokens, .. } = &report;
    let OutputArgs { json, dry_run, .. } = args.output;
    if !dry_run {
        ui.status(&format!("wrote {output}: {bytes} bytes ({}), {tokens} tokens", human_bytes(*bytes)));
    }
    match (json, dry_run) {
        (true, _) => ui.json(&report)?,
        (false, true) => {
            let Report { architecture, tokenizer, keys, .. } = &report;
            ui.data(&format!(
                "{output}: {architecture}, {tokens} tokens of kind {tokenizer}, {keys} keys, {bytes} bytes\n"
            ))?;
        }
        (false, false) => {}
    }
    input.finish(ui)
}

fn make(
    args: &VocabArgs,
    (folder, file_type, options): (&Folder, Option<FileType>, &gguf_models::Options),
    ui: &Ui,
) -> Result<Report, Error> {
    // Weights say no more than the type that the reference notes; without them it is f16.
    let checkpoint = gguf_checkpoint::open(folder.clone())
        .or_else(|_| gguf_checkpoint::open_without_weights(folder.clone()))
        .map_err(Error::Source)?;
    let checkpoint = gguf_conversion::normalized(checkpoint, options)?;
    let layout = gguf_conversion::resolve(&checkpoint, options)?;
    let file_type = file_type.unwrap_or_else(|| gguf_conversion::guessed_file_type(&checkpoint));
    let plan = gguf_conversion::plan_vocab(&layout, file_type, byte_order(args.big_endian))?;
    let default_name = gguf_models::vocab_file_name(&layout.metadata);
    let path = gguf_conversion::output_path(args.out.as_deref(), &default_name, &format!("{file_type:?}"))?;
    check_output(&path, args.out.as_deref(), folder.path(), args.output.force || args.output.dry_run)?;
    let notes = Notes::of(&checkpoint.notes, &[&layout]);
    notes.tell(ui);
    let find = |key: &str| layout.metadata.get(key);
    let report = Report {
        input: args.src.display().to_string(),
        output: path.display().to_string(),
        architecture: layout.architecture,
        tokenizer: find("tokenizer.ggml.model")
            .and_then(gguf_container::Value::as_str)
            .unwrap_or_default()
            .to_owned(),
        tokens: find("tokenizer.ggml.tokens")
            .and_then(gguf_container::Value::as_array)
            .map_or(0, gguf_container::Array::len),
        // Those of the file type stand in the plan only.
        keys: layout.metadata.len() + 2,
        bytes: plan.unpadded_header_bytes().len() as u64,
        dry_run: args.output.dry_run,
        notes: notes.all(),
    };
    if !args.output.dry_run {
        make_folder_of(&path)?;
        gguf_conversion::write_vocab(&plan, &path, args.output.force)?;
    }
    Ok(report)
}
