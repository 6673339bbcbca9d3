//! `gguf-eval generate FILE --prompt P`: lets a model speak.

use std::{path::PathBuf, time::Instant};

use clap::Args;
use gguf_container::Value;
use gguf_runtime::{
    Model, Piece, chat,
    generate::{Sampler, Sampling, generate, generate_from_pieces},
};
use gguf_toolkit::{eval_model::warn_of_length, template_guard::guarded};

use super::shared::{
    eval_args::{RunArgs, open},
    pictures::Pictures,
};
use crate::{commands::Command, failure::Failure, ui::Ui};

/// The row of [`super::COMMANDS`].
pub const COMMAND: Command = Command {
    verb: Some("generate"),
    about: "Generate text or answer a chat message",
    examples: EXAMPLES,
    define: GenerateArgs::augment_args,
    run: |matches, ui| run(Command::args(matches)?, ui),
    ..Command::of("gguf-eval")
};

const EXAMPLES: &str = "\
Examples:
  gguf-eval generate model.gguf --prompt 'Once upon a time'
  gguf-eval generate model-it.gguf --chat --prompt 'What is a llama?'
  gguf-eval generate model-it.gguf --chat --system 'Answer in French.' --prompt 'Hello!' --temperature 0.8
  gguf-eval generate vl.gguf --mmproj mmproj-vl.gguf --image cat.jpg --chat --prompt 'What is this?'

The same command always generates the same text.";

#[derive(Debug, Args)]
struct GenerateArgs {
    /// GGUF file, or any shard of a split model.
    file: PathBuf,
    /// Pass TEXT to the model.
    #[arg(short, long, value_name = "TEXT")]
    prompt: String,
    /// Format the prompt with the chat template.
    #[arg(long)]
    chat: bool,
    /// Set the system message.
    #[arg(long, value_name = "TEXT", requires = "chat")]
    system: Option<String>,
    /// Load the vision projector in FILE.
    ///
    /// `gguf-convert mmproj` makes such files.
    #[arg(long, value_name = "FILE", requires = "image")]
    mmproj: Option<PathBuf>,
    /// Show the model a PNG or JPEG image (repeatable).
    ///
    /// Images replace `<__media__>` in the prompt. Without this marker, they come before the prompt.
    #[arg(long, value_name = "FILE", requires = "mmproj")]
    image: Vec<PathBuf>,
    /// Use at most N tokens for each image.
    ///
    /// Applies to models in which the number of tokens depends on the image size. Fewer tokens are faster but lose
    /// detail.
    #[arg(long, value_name = "N", requires = "mmproj", value_parser = clap::value_parser!(u32).range(1..), hide_short_help = true)]
    image_tokens: Option<u32>,
    /// Generate at most N tokens.
    #[arg(short = 'n', long, value_name = "N", default_value_t = 128, value_parser = clap::value_parser!(u32).range(1..))]
    tokens: u32,
    /// Set the sampling temperature.
    ///
    /// 0 is greedy: the most likely token is always chosen.
    #[arg(long, value_name = "T", default_value_t = 0.0)]
    temperature: f32,
    /// Sample from the K most likely tokens; 0 means all.
    #[arg(long, value_name = "K", default_value_t = 40, hide_short_help = true)]
    top_k: usize,
    /// Sample from the top tokens with total probability P.
    #[arg(long, value_name = "P", default_value_t = 0.95, hide_short_help = true)]
    top_p: f32,
    /// Set the random seed.
    #[arg(long, value_name = "N", default_value_t = 0, hide_short_help = true)]
    seed: u64,
    #[command(flatten)]
    run: RunArgs,
}

fn run(args: GenerateArgs, ui: &Ui) -> Result<(), Failure> {
    let sampling =
        Sampling { temperature: args.temperature, top_k: args.top_k, top_p: args.top_p, seed: args.seed };
    sampling.check().map_err(Failure::usage)?;
    let model = open(&args.file, &args.run, ui)?;
    let pictures = match &args.mmproj {
        None => None,
        Some(mmproj) => {
            let max_tokens = args.image_tokens.map(|n| n as usize);
            Some(Pictures::open(&model, mmproj, &args.image, max_tokens, &args.run, ui)?)
        }
    };
    let tokens = prompt(&model, &args, pictures.as_ref())?;
    let pieces = match &pictures {
        None => tokens.iter().map(|tokens| Piece::Tokens(tokens)).collect(),
        Some(pictures) => pictures.pieces(&tokens),
    };
    let n_prompt: usize = pieces.iter().map(Piece::n_rows).sum();
    if n_prompt == 0 {
        return Err(Failure::usage("the prompt has no tokens"));
    }
    let limit = args.tokens as usize;
    warn_of_length(&model, n_prompt + limit, ui);
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
    let sampler = &mut Sampler::new(sampling);
    let made = match &pieces[..] {
        // A model with an encoder reads tokens alone.
        [Piece::Tokens(tokens)] => generate(&model, tokens, limit, sampler, &mut watch),
        pieces => generate_from_pieces(&model, pieces, limit, sampler, &mut watch),
    };
    let ids = made.map_err(|error| Failure::at(&args.file, error))?;
    if let Some(failure) = failure {
        return Err(failure);
    }
    ui.data("\n")?;
    if ids.is_empty() {
        let has_template = model.file().get("tokenizer.chat_template").is_some();
        let advice =
            if has_template && !args.chat { "; try --chat, which uses the file's chat template" } else { "" };
        ui.warning(&format!("the model generated no tokens{advice}"));
    }
    let seconds = start.elapsed().as_secs_f64();
    // The first token waits for the whole prompt; the others say how fast one follows another.
    let rate = first.filter(|_| ids.len() > 1).map_or(String::new(), |first| {
        let per_second = (ids.len() - 1) as f64 / first.elapsed().as_secs_f64().max(1e-9);
        format!(", {per_second:.1} tokens/s")
    });
    ui.status(&format!("{} tokens after {} in {seconds:.1} s{rate}", ids.len(), n_prompt));
    Ok(())
}

/// Tokens of the prompt: before, between and after the images.
fn prompt(model: &Model, args: &GenerateArgs, pictures: Option<&Pictures>) -> Result<Vec<Vec<u32>>, Failure> {
    let tokenizer = model.tokenizer();
    let asked = match pictures {
        None => args.prompt.clone(),
        Some(pictures) => pictures.with_places(&args.prompt)?,
    };
    let (text, begins, is_special) = if args.chat {
        let tokens = chat::SpecialTokens::of_model(model);
        let bos = tokens.bos.clone();
        let template = model.file().get("tokenizer.chat_template").and_then(Value::as_str);
        let template = template.map(str::to_owned);
        let (system, asked) = (args.system.clone(), asked);
        let rendered = guarded(move || {
            let system = system.iter().map(|text| ("system", text.as_str()));
            let messages: Vec<chat::Message<'_>> = system.chain([("user", asked.as_str())]).collect();
            let chat = chat::Chat::of(&chat::Conversation::of(&messages));
            let settings =
                chat::Settings { tokens: &tokens, generation_prompt: true, date: chat::Date::now() };
            chat::render_chat(template.as_deref().ok_or(chat::ChatError::Absent)?, &chat, &settings)
        })?;
        let text = rendered.map_err(|error| {
            Failure::at(&args.file, error).hint(["omit --chat to pass the prompt unchanged"])
        })?;
        // A template that writes the first token itself wants no second.
        let has_first = !bos.is_empty() && text.starts_with(&bos);
        (text, !has_first, true)
    } else {
        (asked, true, false)
    };
    match pictures {
        Some(pictures) => pictures.tokens(&args.file, model, &text, begins),
        None => {
            let tokens = tokenizer.encode(text, begins, is_special);
            Ok(vec![tokens.map_err(|error| Failure::at(&args.file, error))?])
        }
    }
}
