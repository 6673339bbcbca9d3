//! `gguf-eval generate FILE --prompt P`: generates text.

use std::{ops::ControlFlow, path::PathBuf};

use clap::Args;
use gguf_toolkit::{
    GenerateOptions, Model,
    run::{Generated, Sampling},
};

use super::shared::eval_args::{RunArgs, options};
use crate::{commands::Command, failure::Failure, ui::Ui};

/// The row of [`super::COMMANDS`].
pub const COMMAND: Command = Command {
    verb: Some("generate"),
    about: "Generate text or answer a chat message",
    define: GenerateArgs::augment_args,
    run: |matches, ui| run(Command::args(matches)?, ui),
    ..Command::of("gguf-eval")
};

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
    let generation = GenerateOptions {
        max_tokens: args.tokens as usize,
        sampling: Sampling {
            temperature: args.temperature,
            top_k: args.top_k,
            top_p: args.top_p,
            seed: args.seed,
        },
        chat: args.chat,
        system: args.system,
        mmproj: args.mmproj,
        images: args.image,
        image_tokens: args.image_tokens.map(|n| n as usize),
    };
    generation.check()?;
    let model = Model::open_with(&args.file, &options(&args.run)?, ui)?;
    let mut failure = None;
    let mut print = |text: &str| match ui.data(text) {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => {
            failure = Some(error);
            ControlFlow::Break(())
        }
    };
    let made = model.generate(&args.prompt, &generation, &mut print, ui)?;
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
