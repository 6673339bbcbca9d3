//! `gguf-eval compare BASE FILE... --text F`: loss of quantization.

use std::path::PathBuf;

use clap::Args;
use gguf_toolkit::{
    Text,
    compare::{self, CompareOptions},
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
    verb: Some(compare::VERB),
    about: "Measure the KL divergence of models from their base",
    define: CompareArgs::augment_args,
    run: |matches, ui| run(Command::args(matches)?, ui),
    ..Command::of("gguf-eval")
};

#[derive(Debug, Args)]
struct CompareArgs {
    /// Base model: GGUF file, or saved logits of one.
    #[arg(required_unless_present = "merge", conflicts_with = "merge")]
    base: Option<PathBuf>,
    /// GGUF files to compare with it.
    files: Vec<PathBuf>,
    /// Read the text from FILE.
    #[arg(short = 'f', long, value_name = "FILE", conflicts_with = "merge")]
    text: Option<PathBuf>,
    #[command(flatten)]
    chunks: ChunkArgs,
    /// Compare the K most likely tokens.
    ///
    /// Reports how many tokens are among the K most likely of both models.
    #[arg(long, value_name = "K", default_value_t = 10, conflicts_with = "merge", value_parser = clap::value_parser!(u32).range(1..=1000), hide_short_help = true)]
    top_tokens: u32,
    /// Continue N prompts greedily and compare the tokens.
    ///
    /// The text is divided into N equal parts. The base and each file continue the first 64 tokens of each part by 32 tokens.
    /// Reports the share of continuations that are the same, and the mean number of tokens before the first difference (32 if
    /// there is none). Both have standard errors; 100 prompts give about 5 percentage points.
    #[arg(long, value_name = "N", requires = "text", conflicts_with_all = ["merge", "part"], value_parser = clap::value_parser!(u32).range(1..), hide_short_help = true)]
    continuations: Option<u32>,
    /// Also report on each tensor.
    ///
    /// Adds its quantization error. Without --text, only these errors are reported.
    #[arg(long, conflicts_with_all = ["merge", "part"])]
    tensors: bool,
    /// Print the whole listing.
    ///
    /// With several files, prints the details of each file instead of one line per file. The details of a single file
    /// are always printed.
    #[arg(long, conflicts_with = "json", hide_short_help = true)]
    full: bool,
    /// Write a page with charts to PAGE.
    ///
    /// It includes the error of each tensor, except with --merge.
    #[arg(long, value_name = "PAGE", conflicts_with = "part")]
    html: Option<PathBuf>,
    /// Write the metrics of the files as a table in CSV to FILE.
    ///
    /// A row for each file, with all digits and a column of standard errors after each metric. --json also has the values of
    /// each chunk.
    #[arg(long, value_name = "FILE", conflicts_with = "part", hide_short_help = true)]
    csv: Option<PathBuf>,
    /// Write the logits of the base to FILE.
    ///
    /// The format is that of `llama-perplexity --kl-divergence-base`: 2 bytes for each vocabulary entry at each position.
    #[arg(long, value_name = "FILE", requires = "text", conflicts_with_all = ["merge", "part"])]
    save_logits: Option<PathBuf>,
    /// Overwrite existing outputs.
    #[arg(long)]
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

fn run(args: CompareArgs, ui: &Ui) -> Result<(), Failure> {
    let part = args.parts.options(args.force);
    let options = CompareOptions {
        base: args.base.unwrap_or_default(),
        files: args.files,
        text: args.text.map(Text::File),
        chunks: args.chunks.settings(None),
        continuations: args.continuations.map(|n| n as usize),
        top_tokens: args.top_tokens,
        tensors: args.tensors,
        html: args.html,
        csv: args.csv,
        save_logits: args.save_logits,
        force: args.force,
        run: options(&args.run, &args.adapters)?,
        rescue: std::env::temp_dir(),
    };
    let compared = match (part, args.parts.merge.is_empty()) {
        (Some(part), _) => return compare::compare_part(&options, &part, ui),
        (None, true) => compare::compare(&options, ui)?,
        (None, false) => compare::merge_comparison(&args.parts.merge, &options)?,
    };
    let report = &compared.report;
    if args.json {
        ui.json(report)?
    } else {
        ui.data(&compare::listing(report, args.tensors, args.full || report.files.len() == 1))?
    }
    compared.finish(&options, ui)
}
