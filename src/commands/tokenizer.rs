//! `gguf-inspect tokenizer FILE`: the ids of a text by the tokenizer keys of a GGUF file; with `--against SRC`, compared with
//! those of the checkpoint's own tokenizer.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use gguf_toolkit::{container_file::open_foreign, text_file, tokenizer};

use crate::{commands::Command, failure::Failure, ui::Ui};

/// The row of [`super::COMMANDS`].
pub const COMMAND: Command = Command {
    verb: Some("tokenizer"),
    about: "Encode text, or compare the tokenizer with its source",
    define: TokenizerArgs::augment_args,
    run: |matches, ui| run(Command::args(matches)?, ui),
    ..Command::of("gguf-inspect")
};

#[derive(Debug, Args)]
struct TokenizerArgs {
    /// GGUF file, or the first shard of a split model.
    file: PathBuf,
    /// Compare with SRC.
    ///
    /// SRC is the folder of the checkpoint, or its `tokenizer.json`. The exit code is 1 if any token ID differs.
    #[arg(long, value_name = "SRC")]
    against: Option<PathBuf>,
    /// Read the text from FILE.
    ///
    /// Without it, a short built-in text in many scripts is encoded.
    #[arg(short = 'f', long, value_name = "FILE")]
    text: Option<PathBuf>,
    /// Treat special tokens in the text as plain text.
    #[arg(long)]
    plain: bool,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

fn run(args: TokenizerArgs, ui: &Ui) -> Result<(), Failure> {
    let text = match &args.text {
        Some(path) => text_file::bytes(path)?,
        None => tokenizer::TEXT.as_bytes().to_vec(),
    };
    let path = args.file.as_path();
    let file = open_foreign(path)?;
    let Some(source) = &args.against else {
        let ids = tokenizer::encode(path, &file, &text, args.plain)?;
        return if args.json {
            ui.data(&format!("{}\n", json!({"text_bytes": text.len(), "ids": ids})))
        } else {
            ui.data(&tokenizer::listing(path, &file, &ids)?)
        };
    };
    let compared = tokenizer::compare(path, &file, source, &text, args.plain)?;
    if args.json {
        ui.data(&format!("{}\n", compared.json()))?
    } else {
        ui.data(&compared.text())?
    }
    compared.verdict()
}
