//! `gguf-eval perplexity FILE --text F`: how well a model predicts a text.

use std::path::PathBuf;

use clap::Args;
use gguf_toolkit::{
    Text,
    perplexity::{self, PerplexityOptions},
};

use super::{
    Command,
    shared::{
        eval_args::{LoraArgs, RunArgs, options},
        part_args::{ChunkArgs, PartArgs},
    },
};
use crate::{failure::Failure, ui::Ui};

/// The row of [`super::COMMANDS`].
pub const COMMAND: Command = Command {
    verb: Some(perplexity::VERB),
    about: "Measure the perplexity of a model on a text",
    define: PerplexityArgs::augment_args,
    run: |matches, ui| run(Command::args(matches)?, ui),
    ..Command::of("gguf-eval")
};

#[derive(Debug, Args)]
struct PerplexityArgs {
    /// GGUF file, or any shard of a split model.
    #[arg(required_unless_present = "merge", conflicts_with = "merge")]
    file: Option<PathBuf>,
    /// Read the text from FILE.
    #[arg(
        short = 'f',
        long,
        value_name = "FILE",
        required_unless_present = "merge",
        conflicts_with = "merge"
    )]
    text: Option<PathBuf>,
    #[command(flatten)]
    chunks: ChunkArgs,
    /// Start a chunk every N tokens and score its last N.
    #[arg(long, value_name = "N", conflicts_with = "merge", value_parser = clap::value_parser!(u32).range(1..))]
    stride: Option<u32>,
    /// Overwrite existing outputs.
    #[arg(long, requires = "part", hide_short_help = true)]
    force: bool,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    adapters: LoraArgs,
    #[command(flatten)]
    run: RunArgs,
    #[command(flatten)]
    parts: PartArgs,
}

fn run(args: PerplexityArgs, ui: &Ui) -> Result<(), Failure> {
    let part = args.parts.options(args.force);
    let measured = match (args.file, args.text) {
        (Some(file), Some(text)) => {
            let (chunks, run) = (args.chunks.settings(args.stride), options(&args.run, &args.adapters)?);
            let options = PerplexityOptions { file, text: Text::File(text), chunks, run };
            match part {
                Some(part) => return perplexity::perplexity_part(&options, &part, ui),
                None => perplexity::perplexity(&options, ui)?,
            }
        }
        _ => {
            options(&args.run, &args.adapters)?;
            perplexity::merge_perplexity(&args.parts.merge)?
        }
    };
    if args.json { ui.data(&format!("{:#}\n", measured.json())) } else { ui.data(&(measured.line() + "\n")) }
}
