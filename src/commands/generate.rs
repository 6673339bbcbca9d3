//! `gguf-eval generate FILE --prompt P`: lets a model speak.

use std::{path::PathBuf, time::Instant};

use clap::{ArgMatches, Args, FromArgMatches};
use eval::{
    Model, chat,
    generate::{Sampler, Sampling, generate},
};
use gguf::Value;

use super::shared::eval_model::{RunArgs, at, open, warn_of_length};
use crate::{commands::Command, failure::Failure, ui::Ui};

/// The row of [`super::COMMANDS`].
pub const COMMAND: Command = Command {
    binary: "gguf-eval",
    verb: Some("generate"),
    define: |command| {
        GenerateArgs::augment_args(command)
            .about("Continues a text, or answers a message.")
            .after_help(EXAMPLES)
    },
    ui: |matches| Ui { quiet: matches.get_flag("quiet"), verbose: false },
    run,
};

const EXAMPLES: &str = "\
Examples:
  gguf-eval generate model.gguf --prompt 'Once upon a time'
  gguf-eval generate model-it.gguf --chat --prompt 'What is a llama?'
  gguf-eval generate model-it.gguf --chat --system 'Answer in French.' --prompt 'Hello!' --temperature 0.8 --seed 7

Without --temperature the likeliest token is taken always, and the same call gives the same text.";

#[derive(Debug, Args)]
struct GenerateArgs {
    /// A GGUF file; of a split model, one of its shards.
    file: PathBuf,
    /// The text to continue, or the message to answer.
    #[arg(short, long, value_name = "TEXT")]
    prompt: String,
    /// Put the prompt into the form of a message, by the file's chat template.
    #[arg(long)]
    chat: bool,
    /// A message of the system before the prompt.
    #[arg(long, value_name = "TEXT", requires = "chat")]
    system: Option<String>,
    /// Tokens to make at most.
    #[arg(short = 'n', long, value_name = "N", default_value_t = 128, alias = "n-predict", value_parser = clap::value_parser!(u32).range(1..))]
    tokens: u32,
    /// How freely to choose; 0 takes the likeliest token always.
    #[arg(long, value_name = "T", default_value_t = 0.0)]
    temperature: f32,
    /// Choose among so many of the likeliest tokens; 0 for all.
    #[arg(long, value_name = "K", default_value_t = 40)]
    top_k: usize,
    /// Choose among the likeliest tokens that have this probability together.
    #[arg(long, value_name = "P", default_value_t = 0.95)]
    top_p: f32,
    /// Where the random numbers begin.
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    #[command(flatten)]
    run: RunArgs,
}

fn run(matches: &ArgMatches, ui: &Ui) -> Result<(), Failure> {
    let args = GenerateArgs::from_arg_matches(matches).map_err(Failure::usage)?;
    let sampling =
        Sampling { temperature: args.temperature, top_k: args.top_k, top_p: args.top_p, seed: args.seed };
    sampling.check().map_err(Failure::usage)?;
    let model = open(&args.file, &args.run, ui)?;
    let prompt = prompt(&model, &args)?;
    if prompt.is_empty() {
        return Err(Failure::usage("the prompt has no tokens"));
    }
    let limit = args.tokens as usize;
    warn_of_length(&model, prompt.len() + limit, ui);
    let start = Instant::now();
    let mut first = None;
    let (mut made, mut shown, mut failure) = (Vec::new(), 0, None);
    let mut watch = |id: u32| {
        made.push(id);
        first.get_or_insert_with(Instant::now);
        let text = model.tokenizer().decode(&made).unwrap_or_default();
        // Characters of several tokens are shown when they are whole.
        let whole = match std::str::from_utf8(&text) {
            Ok(text) => text.len(),
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            Err(_) => text.len(),
        };
        if whole > shown {
            let result = ui.data(&String::from_utf8_lossy(&text[shown..whole]));
            shown = whole;
            failure = result.err();
        }
        failure.is_none()
    };
    let ids = generate(&model, &prompt, limit, &mut Sampler::new(sampling), &mut watch)
        .map_err(|error| at(&args.file, error))?;
    if let Some(failure) = failure {
        return Err(failure);
    }
    ui.data("\n")?;
    let seconds = start.elapsed().as_secs_f64();
    // The first token waits for the whole prompt; the others say how fast one follows another.
    let rate = first.filter(|_| ids.len() > 1).map_or(String::new(), |first| {
        let per_second = (ids.len() - 1) as f64 / first.elapsed().as_secs_f64().max(1e-9);
        format!(", {per_second:.1} tokens a second")
    });
    ui.status(&format!("{} tokens after {} in {seconds:.1} s{rate}", ids.len(), prompt.len()));
    Ok(())
}

/// The tokens of the prompt.
fn prompt(model: &Model, args: &GenerateArgs) -> Result<Vec<u32>, Failure> {
    let tokenizer = model.tokenizer();
    let tokens = if args.chat {
        let text = |id: Option<u32>| {
            let text = id.and_then(|id| tokenizer.token_text(id)).unwrap_or_default();
            String::from_utf8_lossy(text).into_owned()
        };
        let (bos, eos) = (text(tokenizer.bos()), text(tokenizer.eos()));
        let template = model.file().get("tokenizer.chat_template").and_then(Value::as_str);
        let system = args.system.iter().map(|text| ("system", text.as_str()));
        let messages: Vec<chat::Message<'_>> = system.chain([("user", args.prompt.as_str())]).collect();
        let text = chat::prompt(template, &messages, &bos, &eos).map_err(|error| {
            Failure::at(&args.file, error).hint(["without --chat the prompt is continued as it is"])
        })?;
        // A template that writes the first token itself wants no second.
        let begins = !bos.is_empty() && text.starts_with(&bos);
        tokenizer.encode(text, !begins, true)
    } else {
        tokenizer.encode(&args.prompt, true, false)
    };
    tokens.map_err(|error| Failure::at(&args.file, error))
}
