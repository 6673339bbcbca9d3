//! `gguf-eval draft TARGET DRAFT --text F`: how many tokens of a draft its target accepts.

use std::path::PathBuf;

use clap::Args;
use gguf_toolkit::{
    ChunkSettings, Text,
    draft::{self, DraftOptions},
};

use super::{
    Command,
    shared::eval_args::{LoraArgs, RunArgs, options},
};
use crate::{failure::Failure, ui::Ui};

/// The row of [`super::COMMANDS`].
pub const COMMAND: Command = Command {
    verb: Some("draft"),
    about: "Measure how many tokens of a draft model its target accepts",
    define: DraftArgs::augment_args,
    run: |matches, ui| run(Command::args(matches)?, ui),
    ..Command::of("gguf-eval")
};

#[derive(Debug, Args)]
struct DraftArgs {
    /// GGUF file of the target model.
    target: PathBuf,
    /// GGUF file of the draft model.
    draft: PathBuf,
    /// Read the text from FILE.
    #[arg(short = 'f', long, value_name = "FILE")]
    text: PathBuf,
    /// Set the context length, in tokens.
    ///
    /// The text is cut into chunks of this length, and each chunk is continued.
    #[arg(short, long, value_name = "N", default_value_t = 512, value_parser = clap::value_parser!(u32).range(4..))]
    context: u32,
    /// Read at most N chunks of the text.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    chunks: Option<u32>,
    /// Generate at most N tokens.
    ///
    /// The target generates them after each chunk. The last step may exceed the number.
    #[arg(short = 'n', long, value_name = "N", default_value_t = 128, value_parser = clap::value_parser!(u32).range(1..))]
    tokens: u32,
    /// Propose N tokens in a step.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=64))]
    draft_tokens: u32,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    run: RunArgs,
}

fn run(args: DraftArgs, ui: &Ui) -> Result<(), Failure> {
    let size = |n: u32| n as usize;
    let options = DraftOptions {
        target: args.target,
        draft: args.draft,
        text: Text::File(args.text),
        chunks: ChunkSettings {
            context: size(args.context),
            n_chunks: args.chunks.map(size),
            ..ChunkSettings::default()
        },
        n_tokens: size(args.tokens),
        n_proposed: size(args.draft_tokens),
        run: options(&args.run, &LoraArgs::default())?,
    };
    let measured = draft::draft(&options, ui)?;
    if args.json { ui.data(&format!("{:#}\n", measured.json())) } else { ui.data(&measured.listing()) }
}
