//! `gguf-eval embed FILE --text F`: vectors of texts, and the scores of rankers.

use std::{fmt::Write as _, path::PathBuf};

use clap::{ArgGroup, Args, ValueEnum};
use gguf_toolkit::{
    EmbedOptions, Model,
    run::{Embedding, Pooling},
    text_file,
};
use serde_json::{Value as Json, json};

use super::shared::eval_args::{RunArgs, options};
use crate::{commands::Command, failure::Failure, ui::Ui};

/// The row of [`super::COMMANDS`].
pub const COMMAND: Command = Command {
    verb: Some("embed"),
    about: "Compute embeddings of texts, or scores of a reranker",
    examples: EXAMPLES,
    define: |command| {
        EmbedArgs::augment_args(command)
            .group(ArgGroup::new("texts").args(["text", "prompt"]).required(true).multiple(true))
    },
    run: |matches, ui| run(Command::args(matches)?, ui),
    ..Command::of("gguf-eval")
};

const EXAMPLES: &str = "\
Examples:
  gguf-eval embed all-minilm.gguf --text lines.txt --json
  gguf-eval embed all-minilm.gguf --prompt 'A llama is an animal.' --prompt 'So is a camel.' --normalize
  gguf-eval embed bert.gguf --pooling mean --text lines.txt
  gguf-eval embed reranker.gguf --prompt 'what is a llama?\\tA llama is an animal.'

Prints one line of numbers per text, or per token with --pooling none. A reranker prints its scores.
A tab (\\t in --prompt) separates question and answer. Texts that are longer than the model supports
are an error. The token type is always 0, as in llama-embedding.";

/// [`Pooling`] as an argument.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Way {
    /// Mean over all tokens.
    Mean,
    /// First token.
    Cls,
    /// Last token.
    Last,
    /// One vector per token.
    None,
    /// Scores of the classifier in the file.
    Rank,
}

impl From<Way> for Pooling {
    fn from(way: Way) -> Pooling {
        match way {
            Way::Mean => Pooling::Mean,
            Way::Cls => Pooling::Cls,
            Way::Last => Pooling::Last,
            Way::None => Pooling::None,
            Way::Rank => Pooling::Rank,
        }
    }
}

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
    /// Combine the vectors of tokens by this method.
    ///
    /// Default: the method that the file names.
    #[arg(long, value_name = "KIND")]
    pooling: Option<Way>,
    /// L2-normalize the embeddings.
    #[arg(long)]
    normalize: bool,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    run: RunArgs,
}

fn run(args: EmbedArgs, ui: &Ui) -> Result<(), Failure> {
    let model = Model::open_with(&args.file, &options(&args.run)?, ui)?;
    let embedding = EmbedOptions { pooling: args.pooling.map(Pooling::from), normalize: args.normalize };
    let pooling = model.pooling(&embedding)?;
    let texts = texts(&args, ui)?;
    let mut listed = Vec::new();
    let mut each = |index: usize, found: Embedding| {
        if args.json {
            listed.push(described(&model, pooling, &texts[index], &found));
            return Ok(());
        }
        let mut lines = String::new();
        found.vectors.rows().into_iter().for_each(|row| write_row(&mut lines, row.iter()));
        ui.data(&lines)
    };
    model.embed_each(&texts, &embedding, &mut each, ui)?;
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

/// A number of a vector with the digits that it has, not those that f64 adds.
fn short(x: &f32) -> Json {
    x.to_string().parse::<f64>().map_or(Json::Null, Json::from)
}

fn write_row<'a>(lines: &mut String, row: impl Iterator<Item = &'a f32>) {
    for (i, x) in row.enumerate() {
        let space = if i > 0 { " " } else { "" };
        let _ = write!(lines, "{space}{x}");
    }
    lines.push('\n');
}

fn described(model: &Model, pooling: Pooling, text: &str, found: &Embedding) -> Json {
    let mut value = json!({ "text": text, "tokens": found.n_tokens });
    let row = |values: &mut dyn Iterator<Item = &f32>| values.map(short).collect::<Json>();
    match pooling {
        Pooling::None => {
            let rows = found.vectors.rows().into_iter();
            value["vectors"] = rows.map(|values| row(&mut values.iter())).collect();
        }
        Pooling::Rank => {
            value["scores"] = row(&mut found.vectors.iter());
            if !model.labels().is_empty() {
                value["labels"] = model.labels().into();
            }
        }
        _ => value["vector"] = row(&mut found.vectors.iter()),
    }
    value
}
