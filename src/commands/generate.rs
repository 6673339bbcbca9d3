//! `gguf-eval generate FILE --prompt P`: generates text.

use std::{ops::ControlFlow, path::PathBuf};

use clap::Args;
use gguf_toolkit::{GenerateOptions, Model, run::Generated};

use super::shared::{
    eval_args::{LoraArgs, RunArgs, options},
    sampling_args::SamplingArgs,
    template_args::TemplateArgs,
};
use crate::{commands::Command, failure::Failure, ui::Ui};

/// The row of [`super::COMMANDS`].
pub const COMMAND: Command = Command {
    verb: Some("generate"),
    about: "Generate text or answer a chat message",
    define: |command| {
        let of_chat = |arg: clap::Arg| arg.requires("chat").hide_short_help(true);
        let command = GenerateArgs::augment_args(command);
        TemplateArgs::ALL.iter().fold(command, |command, id| command.mut_arg(id, of_chat))
    },
    run: |matches, ui| run(Command::args(matches)?, ui),
    ..Command::of("gguf-eval")
};

#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("media").args(["image", "audio"]).multiple(true)))]
struct GenerateArgs {
    /// GGUF file, or any shard of a split model.
    file: PathBuf,
    /// Pass TEXT to the model.
    ///
    /// `-` reads standard input, as without this option if the input is not a terminal. The newline at its end is removed.
    #[arg(short, long, value_name = "TEXT")]
    prompt: Option<String>,
    /// Treat special tokens in the text as plain text.
    #[arg(long, conflicts_with = "chat", hide_short_help = true)]
    plain: bool,
    /// Format the prompt with the chat template.
    #[arg(long)]
    chat: bool,
    /// Set the system message.
    #[arg(long, value_name = "TEXT", requires = "chat")]
    system: Option<String>,
    #[command(flatten)]
    template: TemplateArgs,
    /// Load the vision or audio projector in FILE.
    ///
    /// `gguf-convert mmproj` makes such files.
    #[arg(long, value_name = "FILE", requires = "media")]
    mmproj: Option<PathBuf>,
    /// Show the model a PNG or JPEG image (repeatable).
    ///
    /// Images replace `<__media__>` in the prompt. Without this marker, they come before the prompt.
    #[arg(long, value_name = "FILE", requires = "mmproj")]
    image: Vec<PathBuf>,
    /// Play the model a WAV, FLAC or MP3 file (repeatable).
    ///
    /// Sounds replace `<__media__>` in the prompt. Without this marker, they come before the prompt. With images, use
    /// `<__image__>` and `<__audio__>`.
    #[arg(long, value_name = "FILE", requires = "mmproj")]
    audio: Vec<PathBuf>,
    /// Use at most N tokens for each image.
    ///
    /// Applies to models in which the number of tokens depends on the image size. Fewer tokens are faster but lose
    /// detail.
    #[arg(long, value_name = "N", requires = "mmproj", value_parser = clap::value_parser!(u32).range(1..), hide_short_help = true)]
    image_tokens: Option<u32>,
    /// Generate at most N tokens.
    ///
    /// Default: 128 in `generate`; in `chat`, the rest of the model's context, unless the answer repeats itself.
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    tokens: Option<u32>,
    #[command(flatten)]
    sampling: SamplingArgs,
    #[command(flatten)]
    adapters: LoraArgs,
    #[command(flatten)]
    run: RunArgs,
}

fn run(args: GenerateArgs, ui: &Ui) -> Result<(), Failure> {
    let defaults = GenerateOptions::default();
    let generation = GenerateOptions {
        max_tokens: args.tokens.map_or(defaults.max_tokens, |n| n as usize),
        sampling: args.sampling.or(defaults.sampling),
        plain: args.plain,
        chat: args.chat,
        template: args.template.options()?,
        system: args.system,
        mmproj: args.mmproj,
        images: args.image,
        audio: args.audio,
        image_tokens: args.image_tokens.map(|n| n as usize),
    };
    generation.check()?;
    let is_from_input = args.prompt.as_deref().is_none_or(|text| text == "-");
    let prompt = match args.prompt {
        Some(text) if text != "-" => text,
        None if ui.is_interactive() => String::new(),
        _ => ui.read_input()?,
    };
    if prompt.is_empty() && is_from_input {
        let failure = Failure::usage("missing prompt: expected --prompt or standard input");
        return Err(failure.hint(["use `gguf-eval chat` for a chat"]));
    }
    let model = Model::open_with(&args.file, &options(&args.run, &args.adapters)?, ui)?;
    let mut failure = None;
    let mut print = |text: &str| match ui.data(text) {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => {
            failure = Some(error);
            ControlFlow::Break(())
        }
    };
    let made = model.generate(&prompt, &generation, &mut print, ui)?;
    if let Some(failure) = failure {
        return Err(failure);
    }
    ui.data("\n")?;
    let Generated { tokens, n_prompt, seconds, tokens_per_second, .. } = made;
    if tokens.is_empty() {
        let has_template = model.metadata().get("tokenizer.chat_template").is_some();
        let advice =
            if has_template && !args.chat { "; try --chat, which uses the file's chat template" } else { "" };
        ui.warning(&format!("the model generated no tokens{advice}"));
    }
    let rate = tokens_per_second.map_or(String::new(), |rate| format!(", {rate:.1} tokens/s"));
    ui.status(&format!("{} tokens after {n_prompt} in {seconds:.1} s{rate}", tokens.len()));
    Ok(())
}
