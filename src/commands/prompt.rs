//! `gguf-inspect prompt FILE --messages CHAT.json`: the prompt that a file's chat template makes of a chat.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use gguf_container::{Metadata, Value};
use gguf_runtime::{
    chat::{Chat, Date, Settings, SpecialTokens, render_chat},
    tokenize::Tokenizer,
};
use gguf_toolkit::{template_guard::guarded, text_file};
use serde_json::json;

use crate::{commands::Command, failure::Failure, ui::Ui};

/// The row of [`super::COMMANDS`].
pub const COMMAND: Command = Command {
    verb: Some("prompt"),
    about: "Render a chat with the chat template of a GGUF file",
    examples: EXAMPLES,
    define: PromptArgs::augment_args,
    run: |matches, ui| run(Command::args(matches)?, ui),
    ..Command::of("gguf-inspect")
};

const EXAMPLES: &str = "\
Examples:
  gguf-inspect prompt model.gguf --messages chat.json
  gguf-inspect prompt model.gguf --messages chat.json --tools tools.json
  gguf-inspect prompt model.gguf --messages chat.json --kwargs '{\"enable_thinking\": false}'
  gguf-inspect prompt model.gguf --messages chat.json --no-generation-prompt --date 2024-07-26

The prompt is printed as `apply_chat_template` of transformers renders it, without a final newline.";

#[derive(Debug, Args)]
struct PromptArgs {
    /// GGUF file, or the first shard of a split model.
    #[arg(value_hint = ValueHint::FilePath)]
    file: PathBuf,
    /// Read the chat from a JSON file.
    ///
    /// The file holds a list of messages, or an object with `messages` and `tools`. ShareGPT's `conversations` work too.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    messages: PathBuf,
    /// Read the functions that the model may call from a JSON file.
    ///
    /// They replace the tools in the chat. The format is the list of functions of OpenAI's API.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    tools: Option<PathBuf>,
    /// Pass more variables to the template, as a JSON object.
    #[arg(long, value_name = "JSON")]
    kwargs: Option<String>,
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
    #[arg(long, value_name = "YYYY-MM-DD", value_parser = date)]
    date: Option<Date>,
    /// Print the result as JSON.
    ///
    /// The object holds the prompt and the key of the template.
    #[arg(long)]
    json: bool,
}

fn date(text: &str) -> Result<Date, String> {
    Date::parse(text).ok_or_else(|| "expected a date such as 2024-07-26".to_owned())
}

fn run(args: PromptArgs, ui: &Ui) -> Result<(), Failure> {
    let file = gguf_toolkit::show::open(&args.file)?;
    let chat = chat(&args)?;
    let (key, template) = template(&args, file.metadata(), chat.has_tools())?;
    let tokens = match Tokenizer::from_metadata(file.metadata()) {
        Ok(tokenizer) => SpecialTokens::with_tokenizer(file.metadata(), &tokenizer),
        Err(_) => SpecialTokens::of(file.metadata()),
    };
    let (generation_prompt, date) = (!args.no_generation_prompt, args.date.unwrap_or_else(Date::now));
    let rendered = guarded(move || {
        render_chat(&template, &chat, &Settings { tokens: &tokens, generation_prompt, date })
    })?;
    let prompt = rendered.map_err(|error| Failure::at(&args.file, error))?;
    match args.json {
        true => ui.data(&format!("{}\n", json!({"prompt": prompt, "template": key}))),
        false => ui.data(&prompt),
    }
}

/// The chat, with its tools and variables.
fn chat(args: &PromptArgs) -> Result<Chat, Failure> {
    let mut chat = Chat::parse(&text_file::options(&args.messages)?)
        .map_err(|problem| Failure::at(&args.messages, problem))?;
    if let Some(path) = &args.tools {
        chat = chat.with_tools(&text_file::options(path)?).map_err(|problem| Failure::at(path, problem))?;
    }
    if let Some(variables) = &args.kwargs {
        let made = chat.with_variables(variables);
        chat = made.map_err(|problem| Failure::usage(format!("--kwargs: {problem}")))?;
    }
    Ok(chat)
}

/// Key and text of the template to use.
fn template(args: &PromptArgs, metadata: &Metadata, has_tools: bool) -> Result<(String, String), Failure> {
    const KEY: &str = "tokenizer.chat_template";
    let text = |key: &str| metadata.get(key).and_then(Value::as_str).map(str::to_owned);
    let named = |name: &str| {
        let key = format!("{KEY}.{name}");
        text(&key).map(|template| (key, template))
    };
    if let Some(name) = &args.template {
        return named(name).ok_or_else(|| {
            let prefix = format!("{KEY}.");
            let names: Vec<&str> = metadata.iter().filter_map(|(key, _)| key.strip_prefix(&prefix)).collect();
            let found = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            Failure::at(&args.file, format!("unknown template `{name}`; named templates: {found}"))
        });
    }
    let of_tools = if has_tools { named("tool_use") } else { None };
    let plain = || text(KEY).map(|template| (KEY.to_owned(), template));
    of_tools.or_else(plain).ok_or_else(|| Failure::at(&args.file, format!("missing metadata key `{KEY}`")))
}
