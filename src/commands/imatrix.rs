//! `gguf-eval imatrix FILE --text F -o IM`: computes importance matrices, and merges them.

use std::path::PathBuf;

use clap::{Args, builder::TypedValueParser};
use gguf_toolkit::{
    ImatrixFormat, PartNumber, Text,
    arguments::choice,
    importance::{self, ImatrixOptions},
};

use super::{
    Command,
    shared::eval_args::{LoraArgs, RunArgs, options},
};
use crate::{failure::Failure, ui::Ui};

/// The row of [`super::COMMANDS`].
pub const COMMAND: Command = Command {
    verb: Some(importance::VERB),
    about: "Compute the importance matrix of a model, or merge several",
    define: ImatrixArgs::augment_args,
    run: |matches, ui| run(Command::args(matches)?, ui),
    ..Command::of("gguf-eval")
};

#[derive(Debug, Args)]
struct ImatrixArgs {
    /// GGUF file, or any shard of a split model.
    ///
    /// Use the most precise file that you have.
    #[arg(required_unless_present = "merge", requires = "text")]
    file: Option<PathBuf>,
    /// Read the text from FILE.
    ///
    /// A .jsonl file, or JSON of chats under another name, is rendered with the chat template of the model. `builtin` instead of a file is
    /// the built-in calibration text.
    #[arg(short = 'f', long, value_name = "FILE", requires = "file")]
    text: Option<PathBuf>,
    /// Write the result to FILE.
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Set the format of the output.
    ///
    /// `gguf`, or `dat` for the older format.
    #[arg(long, value_name = "FORMAT", default_value = "gguf", value_parser = formats(), hide_possible_values = true)]
    format: ImatrixFormat,
    /// Set the context length, in tokens.
    ///
    /// The text is cut into chunks of this length. With --merge, it is the length of the chunks in files of the older format.
    #[arg(short, long, value_name = "N", default_value_t = 512, value_parser = clap::value_parser!(u32).range(4..))]
    context: u32,
    /// Read at most N chunks of the text.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    chunks: Option<u32>,
    /// Include the output matrix.
    #[arg(long, hide_short_help = true)]
    process_output: bool,
    /// Process only part K of N.
    ///
    /// The text is divided into N parts. The file of part K is an input of --merge.
    #[arg(long, value_name = "K/N", conflicts_with_all = ["merge", "resume", "save_every", "json", "format"], hide_short_help = true)]
    part: Option<PartNumber>,
    /// Merge files of earlier runs.
    ///
    /// These are importance matrices, whose sums are added to those of this run, or the files that --part wrote.
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with = "resume")]
    merge: Vec<PathBuf>,
    /// Save the output after every N chunks.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    save_every: Option<u32>,
    /// Resume an interrupted run.
    ///
    /// Continues from a saved output of a run with the same text and context length.
    #[arg(long)]
    resume: bool,
    /// Overwrite existing outputs.
    #[arg(long)]
    force: bool,
    /// Print the result as JSON.
    ///
    /// The report lists what was written and the tensors without data.
    #[arg(long, hide_short_help = true)]
    json: bool,
    #[command(flatten)]
    adapters: LoraArgs,
    #[command(flatten)]
    run: RunArgs,
}

fn formats() -> impl TypedValueParser<Value = ImatrixFormat> {
    choice(ImatrixFormat::ALL.iter().map(|(name, format)| (*name, "", *format)))
}

fn run(args: ImatrixArgs, ui: &Ui) -> Result<(), Failure> {
    let options = ImatrixOptions {
        file: args.file,
        text: args.text.map(Text::File),
        output: args.output,
        format: args.format,
        context: args.context,
        chunks: args.chunks,
        process_output: args.process_output,
        merge: args.merge,
        save_every: args.save_every,
        resume: args.resume,
        force: args.force,
        run: options(&args.run, &args.adapters)?,
        rescue: std::env::temp_dir(),
    };
    if let Some(number) = args.part {
        return importance::imatrix_part(&options, number, ui);
    }
    let collected = importance::imatrix(&options, ui)?;
    if args.json { ui.json(&collected) } else { Ok(()) }
}
