//! `gguf-eval embed FILE --text F`: vectors of texts, and the scores of rankers.

use std::{fmt::Write as _, path::PathBuf};

use clap::{ArgGroup, Args, ValueEnum};
use gguf_container::Value;
use gguf_runtime::{
    Model,
    embed::{Pooling, embed, labels, normalize, pooling},
};
use gguf_toolkit::{eval_model::warn_of_length, text_file};
use serde_json::{Value as Json, json};

use super::shared::eval_args::{RunArgs, open};
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

/// Texts that are run before their vectors are shown.
const AT_ONCE: usize = 64;

fn run(args: EmbedArgs, ui: &Ui) -> Result<(), Failure> {
    let model = open(&args.file, &args.run, ui)?;
    let pooling =
        pooling(&model, args.pooling.map(Pooling::from)).map_err(|error| Failure::at(&args.file, error))?;
    let texts = texts(&args, ui)?;
    let tokens: Vec<Vec<u32>> = texts
        .iter()
        .enumerate()
        .map(|(i, text)| tokens(&model, &args, pooling, i, text))
        .collect::<Result<_, _>>()?;
    warn_of_length(&model, tokens.iter().map(Vec::len).max().unwrap_or(0), ui);
    let mut listed = Vec::new();
    for (texts, tokens) in texts.chunks(AT_ONCE).zip(tokens.chunks(AT_ONCE)) {
        let vectors = embed(&model, tokens, pooling).map_err(|error| Failure::at(&args.file, error))?;
        let mut lines = String::new();
        for ((text, tokens), mut vector) in texts.iter().zip(tokens).zip(vectors) {
            let width = if pooling == Pooling::None { model.vector_width() } else { vector.len() }.max(1);
            if args.normalize {
                vector.chunks_mut(width).for_each(normalize);
            }
            if args.json {
                listed.push(described(&model, pooling, text, tokens.len(), &vector, width));
            } else {
                vector.chunks(width).for_each(|row| write_row(&mut lines, row));
            }
        }
        ui.data(&lines)?;
    }
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

/// The tokens of a text, or for a ranker of two.
fn tokens(
    model: &Model,
    args: &EmbedArgs,
    pooling: Pooling,
    i: usize,
    text: &str,
) -> Result<Vec<u32>, Failure> {
    let tokenizer = model.tokenizer();
    let template = model.file().get("tokenizer.chat_template.rerank").and_then(Value::as_str);
    let tokens = match (text.split_once('\t').filter(|_| pooling == Pooling::Rank), template) {
        (Some((query, document)), Some(template)) => {
            let text = template.replace("{query}", query).replace("{document}", document);
            tokenizer.encode(text, true, true)
        }
        (Some((query, document)), None) => tokenizer.encode_pair(query, document),
        (None, _) => tokenizer.encode(text, true, false),
    };
    match tokens {
        Ok(tokens) if tokens.is_empty() => Err(Failure::usage(format_args!("text {} has no tokens", i + 1))),
        tokens => tokens.map_err(|error| Failure::at(&args.file, error)),
    }
}

/// A number of a vector with the digits that it has, not those that f64 adds.
fn short(x: f32) -> Json {
    x.to_string().parse::<f64>().map_or(Json::Null, Json::from)
}

fn write_row(lines: &mut String, row: &[f32]) {
    for (i, x) in row.iter().enumerate() {
        let space = if i > 0 { " " } else { "" };
        let _ = write!(lines, "{space}{x}");
    }
    lines.push('\n');
}

fn described(
    model: &Model,
    pooling: Pooling,
    text: &str,
    n_tokens: usize,
    vector: &[f32],
    width: usize,
) -> Json {
    let mut value = json!({ "text": text, "tokens": n_tokens });
    let list = |row: &[f32]| row.iter().map(|x| short(*x)).collect::<Json>();
    match pooling {
        Pooling::None => value["vectors"] = vector.chunks(width).map(list).collect(),
        Pooling::Rank => {
            value["scores"] = list(vector);
            if !labels(model).is_empty() {
                value["labels"] = labels(model).into();
            }
        }
        _ => value["vector"] = list(vector),
    }
    value
}
