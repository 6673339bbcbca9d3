//! `gguf-eval embed FILE --text F`: vectors of texts, and the scores of rankers.

use std::path::PathBuf;

use clap::{ArgGroup, Args};
use gguf_toolkit::{
    EmbedOptions, Model,
    arguments::choice,
    run::{Embedding, Pooling},
    text_file,
};
use serde_json::json;

use super::shared::eval_args::{LoraArgs, RunArgs, options};
use crate::{commands::Command, failure::Failure, ui::Ui};

/// The row of [`super::COMMANDS`].
pub const COMMAND: Command = Command {
    verb: Some("embed"),
    about: "Compute embeddings of texts, or scores of a reranker",
    define: |command| {
        EmbedArgs::augment_args(command)
            .group(ArgGroup::new("texts").args(["text", "prompt"]).required(true).multiple(true))
    },
    run: |matches, ui| run(Command::args(matches)?, ui),
    ..Command::of("gguf-eval")
};

/// Methods of pooling, with their help.
const POOLINGS: [(&str, &str, Pooling); 5] = [
    ("mean", "Mean over all tokens", Pooling::Mean),
    ("cls", "First token", Pooling::Cls),
    ("last", "Last token", Pooling::Last),
    ("none", "One vector per token", Pooling::None),
    ("rank", "Scores of the classifier in the file", Pooling::Rank),
];

#[derive(Debug, Args)]
struct EmbedArgs {
    /// GGUF file, or any shard of a split model.
    file: PathBuf,
    /// Read the text from FILE.
    ///
    /// Each line is a separate text.
    #[arg(short = 'f', long, value_name = "FILE")]
    text: Option<PathBuf>,
    /// Pass TEXT to the model.
    ///
    /// Repeat the option for several texts. They come before those of --text.
    #[arg(short, long, value_name = "TEXT")]
    prompt: Vec<String>,
    /// Treat special tokens in the text as plain text.
    #[arg(long, hide_short_help = true)]
    plain: bool,
    /// Combine the vectors of tokens by this method.
    ///
    /// Default: the method that the file names.
    #[arg(long, value_name = "KIND", value_parser = choice(POOLINGS))]
    pooling: Option<Pooling>,
    /// L2-normalize the embeddings.
    #[arg(long)]
    normalize: bool,
    /// Cut texts that are longer than the model supports.
    ///
    /// By default, they are an error. A warning names each text that is cut.
    #[arg(long)]
    truncate: bool,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    adapters: LoraArgs,
    #[command(flatten)]
    run: RunArgs,
}

fn run(args: EmbedArgs, ui: &Ui) -> Result<(), Failure> {
    let model = Model::open_with(&args.file, &options(&args.run, &args.adapters)?, ui)?;
    let embedding = EmbedOptions {
        pooling: args.pooling,
        normalize: args.normalize,
        truncate: args.truncate,
        plain: args.plain,
    };
    let pooling = model.pooling(&embedding)?;
    let texts = texts(&args, ui)?;
    let mut listed = Vec::new();
    let mut each = |index: usize, found: Embedding| {
        if args.json {
            listed.push(found.json(&texts[index], pooling, model.labels()));
            return Ok(());
        }
        ui.data(&found.text())
    };
    let name = |index: usize| match (&args.text, index.checked_sub(args.prompt.len())) {
        (Some(path), Some(line)) => format!("{}: line {}", path.display(), line + 1),
        _ => format!("text {}", index + 1),
    };
    model.embed_named(&texts, &name, &embedding, &mut each, ui)?;
    if args.json {
        let value = json!({
            "file": args.file.display().to_string(),
            "architecture": model.architecture(),
            "pooling": pooling.name(),
            "normalized": args.normalize,
            "texts": listed,
        });
        ui.data(&format!("{value}\n"))?;
    }
    Ok(())
}

/// The texts of the call, in order.
fn texts(args: &EmbedArgs, ui: &Ui) -> Result<Vec<String>, Failure> {
    let mut texts: Vec<String> = args.prompt.iter().map(|text| text.replace("\\t", "\t")).collect();
    if let Some(path) = &args.text {
        let text = text_file::of_model(path, ui)?;
        texts.extend(String::from_utf8_lossy(&text).lines().map(str::to_owned));
        if texts.is_empty() {
            return Err(Failure::at(path, "no lines"));
        }
    }
    Ok(texts)
}
