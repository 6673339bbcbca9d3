//! `gguf-inspect prompt FILE [--messages CHAT.json]`: the prompt that a file's chat template makes of a chat.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use gguf_toolkit::{
    ChatOptions,
    run::{date, example_chat, read_chat, render_prompt},
};
use serde_json::json;

use crate::{
    commands::{Command, shared::template_args::TemplateArgs},
    failure::Failure,
    ui::Ui,
};

/// The row of [`super::COMMANDS`].
pub const COMMAND: Command = Command {
    verb: Some("prompt"),
    about: "Render a chat with the chat template of a GGUF file",
    define: PromptArgs::augment_args,
    run: |matches, ui| run(Command::args(matches)?, ui),
    ..Command::of("gguf-inspect")
};

#[derive(Debug, Args)]
struct PromptArgs {
    /// GGUF file, or the first shard of a split model.
    #[arg(value_hint = ValueHint::FilePath)]
    file: PathBuf,
    /// Read the chat from a JSON file.
    ///
    /// Default: one message with the text `{prompt}`. The file holds a list of messages, or an object with `messages` and `tools`. ShareGPT's `conversations` work too.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    messages: Option<PathBuf>,
    /// Read the functions that the model may call from a JSON file.
    ///
    /// They replace the tools in the chat. The format is the list of functions of OpenAI's API.
    #[arg(long, requires = "messages", value_name = "FILE", value_hint = ValueHint::FilePath)]
    tools: Option<PathBuf>,
    #[command(flatten)]
    variables: TemplateArgs,
    /// Choose one of several templates, for example tool_use.
    ///
    /// By default `tool_use` is used if the file has it and the chat has tools, as in transformers.
    #[arg(long, value_name = "NAME")]
    template: Option<String>,
    /// Leave out the start of the model's turn.
    #[arg(long)]
    no_generation_prompt: bool,
    /// Set the date that the template sees.
    ///
    /// Default: today.
    #[arg(long, value_name = "YYYY-MM-DD", value_parser = checked_date)]
    date: Option<String>,
    /// Print the result as JSON.
    ///
    /// The object holds the prompt and the key of the template.
    #[arg(long)]
    json: bool,
}

fn checked_date(text: &str) -> Result<String, String> {
    date(text).map(|_| text.to_owned())
}

fn run(args: PromptArgs, ui: &Ui) -> Result<(), Failure> {
    let file = gguf_toolkit::container_file::open(&args.file)?;
    let chat = match &args.messages {
        Some(messages) => read_chat(messages, args.tools.as_deref())?,
        None => example_chat()?,
    };
    let options = ChatOptions {
        add_generation_prompt: !args.no_generation_prompt,
        template: args.template,
        date: args.date,
        ..args.variables.options()?
    };
    let made = render_prompt(&args.file, file.metadata(), &chat, &options)?;
    made.warning().into_iter().for_each(|warning| ui.warning(warning));
    if args.json { ui.data(&format!("{}\n", json!(made))) } else { ui.contents(&made.prompt) }
}
