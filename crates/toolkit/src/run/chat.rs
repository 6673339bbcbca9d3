//! Prompts that the chat template of a file makes of chats, within bounds of time and memory.

use std::path::Path;

use gguf_container::{Metadata, Value};
use gguf_runtime::chat::{
    Chat, Date, Settings, SpecialTokens, SystemMessage, render_chat, render_with_system,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};

use crate::{error::Error, template_guard::guarded, text_file};

/// Key of the template that is used by default; those of named templates begin with it.
const KEY: &str = gguf_tokenizer::keys::CHAT_TEMPLATE;

/// Variables that turn thinking on and off: of Qwen 3, GLM, SmolLM 3 and others, and of DeepSeek and Granite.
pub(super) const THINKING: [&str; 2] = ["enable_thinking", "thinking"];

/// Options of a prompt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ChatOptions {
    /// Functions that the model may call: a list in the form of OpenAI's API, which replaces the tools in the chat.
    pub tools: Option<Json>,
    /// Further variables of the template, for example `enable_thinking`.
    pub variables: Map<String, Json>,
    /// Add the beginning of the model's turn.
    pub add_generation_prompt: bool,
    /// One of several templates by its name, for example `tool_use`, which is also used by default if the file has it and the
    /// chat has tools.
    pub template: Option<String>,
    /// The day that the template sees, for example `2024-07-26`. Default: today.
    pub date: Option<String>,
    /// A template instead of those in the file.
    pub template_text: Option<String>,
    /// Turn thinking on or off: the value of the variables `enable_thinking` and `thinking`. Default: as in the template.
    pub think: Option<bool>,
}

impl Default for ChatOptions {
    fn default() -> Self {
        ChatOptions {
            tools: None,
            variables: Map::new(),
            add_generation_prompt: true,
            template: None,
            date: None,
            template_text: None,
            think: None,
        }
    }
}

/// A prompt and its template.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Prompt {
    /// The text.
    pub prompt: String,
    /// Metadata key of the template.
    pub template: String,
    /// The template's treatment of the system message.
    #[serde(skip)]
    pub system: SystemMessage,
}

impl Prompt {
    /// A warning about a system message that the template does not write in its place.
    pub fn warning(&self) -> Option<&'static str> {
        match self.system {
            SystemMessage::Kept => None,
            SystemMessage::LeftOut => Some("the chat template ignores system messages"),
            SystemMessage::InNext => {
                Some("the chat template refuses system messages; the next message begins with it")
            }
        }
    }
}

/// The day that an option names.
///
/// # Errors
/// A text that is not a date.
pub fn date(text: &str) -> Result<Date, String> {
    Date::parse(text).ok_or_else(|| "expected a date such as 2024-07-26".to_owned())
}

/// Reads a chat from JSON files: messages, and the tools that replace those in the chat.
///
/// # Errors
/// A file that cannot be read or is not a chat.
///
/// # Examples
/// ```no_run
/// let chat = gguf_toolkit::run::read_chat("chat.json".as_ref(), Some("tools.json".as_ref()))?;
/// assert!(chat.has_tools());
/// # Ok::<(), gguf_toolkit::Error>(())
/// ```
pub fn read_chat(messages: &Path, tools: Option<&Path>) -> Result<Chat, Error> {
    let chat = Chat::parse(&text_file::options(messages)?);
    let chat = chat.map_err(|problem| Error::at(messages, problem))?;
    match tools {
        None => Ok(chat),
        Some(path) => chat.with_tools(&text_file::options(path)?).map_err(|problem| Error::at(path, problem)),
    }
}

/// A chat of one message from the user, `{prompt}`, which shows the format of a template.
///
/// # Errors
/// None: the chat is valid.
pub fn example_chat() -> Result<Chat, Error> {
    Chat::parse(r#"[{"role": "user", "content": "{prompt}"}]"#).map_err(Error::new)
}

/// The prompt that the chat template of a file makes of a chat, as `apply_chat_template` of transformers renders it. The file
/// needs no tensors; `path` is named in errors.
///
/// # Errors
/// A missing or unknown template, a chat that the template refuses, a template that exceeds its time or memory, invalid options.
///
/// # Examples
/// ```no_run
/// use gguf_toolkit::{Chat, ChatOptions, run::render_prompt};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let file = gguf_toolkit::open("model.gguf")?;
/// let chat = Chat::parse(r#"[{"role": "user", "content": "Hello!"}]"#)?;
/// let made = render_prompt(file.path(), file.metadata(), &chat, &ChatOptions::default())?;
/// println!("{}", made.prompt);
/// # Ok(())
/// # }
/// ```
pub fn render_prompt(
    path: &Path,
    metadata: &Metadata,
    chat: &Chat,
    options: &ChatOptions,
) -> Result<Prompt, Error> {
    render(path, metadata, SpecialTokens::of_file(metadata), chat.clone(), options, false)
}

/// Same as [`render_prompt`], with the special tokens of an open tokenizer. With `moves_system`, a template that refuses system
/// messages gets them in the next message.
pub(super) fn render(
    path: &Path,
    metadata: &Metadata,
    tokens: SpecialTokens,
    mut chat: Chat,
    options: &ChatOptions,
    moves_system: bool,
) -> Result<Prompt, Error> {
    let ChatOptions { tools, add_generation_prompt, date: day, think, .. } = options;
    if let Some(tools) = tools {
        chat = chat.with_tools(&tools.to_string()).map_err(Error::usage)?;
    }
    let thinking = think.iter().flat_map(|think| THINKING.map(|name| (name.to_owned(), Json::Bool(*think))));
    let variables: Map<String, Json> = thinking.chain(options.variables.clone()).collect();
    if !variables.is_empty() {
        let variables = serde_json::to_string(&variables).map_err(Error::new)?;
        chat = chat.with_variables(&variables).map_err(Error::usage)?;
    }
    let date = day.as_deref().map(date).transpose().map_err(Error::usage)?.unwrap_or_else(Date::now);
    let (key, source) = template_of(path, metadata, options, chat.has_tools())?;
    let generation_prompt = *add_generation_prompt;
    let made = guarded(move || {
        let settings = Settings { tokens: &tokens, generation_prompt, date };
        if moves_system {
            return render_with_system(&source, &chat, &settings);
        }
        render_chat(&source, &chat, &settings).map(|prompt| {
            let system = chat.system_message_in(&prompt);
            (prompt, system)
        })
    })?;
    let (prompt, system) = made.map_err(|error| Error::at(path, error))?;
    Ok(Prompt { prompt, template: key, system })
}

/// Key and text of the template to use.
pub(super) fn template_of(
    path: &Path,
    metadata: &Metadata,
    options: &ChatOptions,
    has_tools: bool,
) -> Result<(String, String), Error> {
    if let Some(text) = &options.template_text {
        return Ok((KEY.to_owned(), text.clone()));
    }
    let text = |key: &str| metadata.get(key).and_then(Value::as_str).map(str::to_owned);
    let named = |name: &str| {
        let key = format!("{KEY}.{name}");
        text(&key).map(|template| (key, template))
    };
    if let Some(name) = &options.template {
        return named(name).ok_or_else(|| {
            let prefix = format!("{KEY}.");
            let names: Vec<&str> = metadata.iter().filter_map(|(key, _)| key.strip_prefix(&prefix)).collect();
            let found = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            Error::at(path, format!("unknown template `{name}`; named templates: {found}"))
        });
    }
    let of_tools = if has_tools { named("tool_use") } else { None };
    let plain = || text(KEY).map(|template| (KEY.to_owned(), template));
    of_tools.or_else(plain).ok_or_else(|| Error::at(path, format!("missing metadata key `{KEY}`")))
}
