//! Chat templates, applied as transformers applies them.
//!
//! Source: `apply_chat_template` of transformers 5.23: a Jinja template over `messages`, with blocks
//! trimmed, loop controls, `raise_exception`, and the methods of Python's strings and dictionaries.

mod conversation;
mod date;
mod expression;
mod filters;
mod methods;
mod named;
mod operators;
mod python;
mod python_json;
mod reading;
mod source;
mod transcripts;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use minijinja::{Environment, ErrorKind, value::Value};

pub use conversation::{Conversation, Tool, ToolCall, Turn};
pub use date::Date;
pub use reading::Chat;
pub use transcripts::{Transcripts, transcripts};

/// Why a template cannot be applied.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChatError {
    /// The file has none.
    #[error("`tokenizer.chat_template` is absent")]
    Absent,
    /// It is the name of a template of llama.cpp that is not known here.
    #[error("`tokenizer.chat_template`: `{0}` is a name, not a template, and not one of the known names")]
    Named(String),
    /// It does not parse.
    #[error("`tokenizer.chat_template`: {0}")]
    Syntax(String),
    /// It says itself that it does not take these messages.
    #[error("`tokenizer.chat_template`: {0}")]
    Refused(String),
    /// It fails on these messages.
    #[error("`tokenizer.chat_template`: {0}")]
    Template(String),
}

/// A message: who says it, and what.
pub type Message<'a> = (&'a str, &'a str);

/// The text that a model is to continue: messages in the form that its template gives them, and the
/// beginning of the model's own turn. `bos` and `eos` are the texts of these tokens.
///
/// # Errors
/// [`ChatError`] for a file without a template, and for one that fails.
pub fn prompt(
    template: Option<&str>,
    messages: &[Message<'_>],
    bos: &str,
    eos: &str,
) -> Result<String, ChatError> {
    let template = template.ok_or(ChatError::Absent)?;
    render(template, &Conversation::of(messages), bos, eos)
}

/// Steps that a template may take for an empty chat.
const FUEL: u64 = 500_000;
/// Further steps for each byte of a chat, and for each pair of its messages: templates look back over all messages.
const FUEL_PER_BYTE: u64 = 200;
const FUEL_PER_PAIR: u64 = 500;

/// Bytes of the stack of a template for each step; most are never touched. With each step it can put a list into a list, and the engine
/// drops these by functions that call themselves.
const STACK_BYTES_PER_STEP: u64 = 2048;
/// Limits of the stack.
const STACK_BYTES: std::ops::RangeInclusive<u64> = 512 << 20..=4 << 30;

/// What a template gets besides the chat.
#[derive(Debug, Clone)]
pub struct Settings<'a> {
    /// Text of the token that begins a text.
    pub bos: &'a str,
    /// Text of the token that ends a text.
    pub eos: &'a str,
    /// Adds the beginning of the model's own turn.
    pub generation_prompt: bool,
    /// The day that `strftime_now` prints.
    pub date: Date,
}

/// The text that a template makes of a conversation, with the beginning of the model's own turn, on [`Date::FIXED`].
///
/// # Errors
/// [`ChatError::Syntax`], [`ChatError::Refused`], [`ChatError::Template`]; the last also for a template that does not come to an
/// end.
pub fn render(
    template: &str,
    conversation: &Conversation<'_>,
    bos: &str,
    eos: &str,
) -> Result<String, ChatError> {
    let settings = Settings { bos, eos, generation_prompt: true, date: Date::FIXED };
    render_chat(template, &Chat::of(conversation), &settings)
}

/// The text of a conversation that is over, as models are trained on: without the beginning of a further turn.
///
/// # Errors
/// As [`render`].
pub fn transcript(
    template: &str,
    conversation: &Conversation<'_>,
    bos: &str,
    eos: &str,
) -> Result<String, ChatError> {
    let settings = Settings { bos, eos, generation_prompt: false, date: Date::FIXED };
    render_chat(template, &Chat::of(conversation), &settings)
}

/// The text that a template makes of a chat.
///
/// # Errors
/// As [`render`].
///
/// # Examples
/// ```
/// use eval::chat::{Chat, Date, Settings, render_chat};
/// let chat = Chat::parse(r#"[{"role": "user", "content": "Hi"}]"#).unwrap();
/// let settings = Settings { bos: "<s>", eos: "</s>", generation_prompt: true, date: Date::FIXED };
/// assert_eq!(render_chat("{{ bos_token }}{{ messages[0].content }}", &chat, &settings).unwrap(), "<s>Hi");
/// ```
pub fn render_chat(template: &str, chat: &Chat, settings: &Settings<'_>) -> Result<String, ChatError> {
    let (n_bytes, n_messages) = chat.size();
    let fuel = FUEL + FUEL_PER_BYTE * n_bytes + FUEL_PER_PAIR * n_messages.saturating_mul(n_messages);
    let stack = (fuel * STACK_BYTES_PER_STEP).clamp(*STACK_BYTES.start(), *STACK_BYTES.end());
    // On a thread whose stack is large enough.
    thread::scope(|scope| {
        let thread = thread::Builder::new().stack_size(usize::try_from(stack).unwrap_or(512 << 20));
        let running = thread.spawn_scoped(scope, || render_here(template, chat, settings, fuel));
        let running = running.map_err(|error| ChatError::Template(format!("no thread for it: {error}")))?;
        running.join().unwrap_or_else(|_| Err(ChatError::Template("the engine fails on it".to_owned())))
    })
}

/// [`render_chat`] on the stack that it is called on.
fn render_here(template: &str, chat: &Chat, settings: &Settings<'_>, fuel: u64) -> Result<String, ChatError> {
    let template = named::source(template)?;
    let template = source::rewritten(&template).map_err(ChatError::Syntax)?;
    let mut environment = Environment::new();
    environment.set_fuel(Some(fuel));
    // As transformers sets up Jinja: `trim_blocks` and `lstrip_blocks`, without which every template prints other blanks.
    environment.set_trim_blocks(true);
    environment.set_lstrip_blocks(true);
    environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
    environment.set_formatter(|output, _, value| {
        output.write_str(&python::text(value)?).map_err(|_| python::invalid("the text cannot be written"))
    });
    let refused = Arc::new(AtomicBool::new(false));
    let says_so = Arc::clone(&refused);
    environment.add_function("raise_exception", move |text: Value| -> Result<Value, minijinja::Error> {
        says_so.store(true, Ordering::Relaxed);
        Err(minijinja::Error::new(ErrorKind::InvalidOperation, python::text(&text)?))
    });
    let date = settings.date;
    environment.add_function("strftime_now", move |format: String| date.format(&format));
    environment.add_function("dict", operators::dictionary);
    operators::add_to(&mut environment);
    filters::add_to(&mut environment);
    // The text of `raise_exception` is the detail of its error; other errors are described as a whole.
    let problem = |error: minijinja::Error| match error.kind() {
        ErrorKind::OutOfFuel => {
            format!(
                "the limit of {fuel} steps was reached: the template may never end, or the chat is too long for it"
            )
        }
        _ => error.detail().map_or_else(|| error.to_string(), str::to_owned),
    };
    let compiled =
        environment.template_from_str(&template).map_err(|error| ChatError::Syntax(problem(error)))?;
    compiled.render(chat.values(settings)).map_err(|error| match refused.load(Ordering::Relaxed) {
        true => ChatError::Refused(problem(error)),
        false => ChatError::Template(problem(error)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_speak_jinja_and_python() {
        let template = "{{- bos_token }}{% for message in messages %}\n    {%- if message.role == 'user' %}\
                        <|im_start|>{{ message['role'] }}\n{{ message['content'].strip() }}<|im_end|>\n\
                        {% else %}{{ raise_exception('Only users speak') }}{% endif %}\n{% endfor %}\
                        {% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
        let made = prompt(Some(template), &[("user", " Hello ")], "<s>", "</s>").unwrap();
        assert_eq!(made, "<s><|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n");
        let refused = prompt(Some(template), &[("system", "x")], "", "").unwrap_err();
        assert!(matches!(&refused, ChatError::Refused(_)));
        assert_eq!(refused.to_string(), "`tokenizer.chat_template`: Only users speak");
        assert!(matches!(prompt(None, &[], "", ""), Err(ChatError::Absent)));
        assert!(matches!(prompt(Some("{% if %}"), &[], "", ""), Err(ChatError::Syntax(_))));
        assert!(matches!(prompt(Some("{{ 1 + none }}"), &[], "", ""), Err(ChatError::Template(_))));
    }

    #[test]
    fn a_template_without_end_is_stopped() {
        let endless = "{% for i in range(9999) %}{% for i in range(9999) %}{% endfor %}{% endfor %}";
        assert!(matches!(prompt(Some(endless), &[], "", ""), Err(ChatError::Template(_))));
    }

    #[test]
    fn lists_in_lists_are_no_danger() {
        // 64 * 3500 lists in about as many steps.
        let (open, close) = ("[".repeat(64), "]".repeat(64));
        let nested = format!(
            "{{% set n = namespace(x=1) %}}{{% for i in range(3500) %}}{{% set n.x = {open}n.x{close} %}}{{% endfor %}}"
        );
        assert_eq!(prompt(Some(&nested), &[], "", "").unwrap(), "");
        let printed = prompt(Some(&format!("{nested}{{{{ n.x }}}}")), &[], "", "").unwrap_err();
        assert_eq!(printed.to_string(), "`tokenizer.chat_template`: lists nested deeper than 990");
        // Python says so too, of a thousand.
        let as_json = prompt(Some(&format!("{nested}{{{{ n.x | tojson }}}}")), &[], "", "").unwrap_err();
        assert_eq!(as_json.to_string(), "`tokenizer.chat_template`: lists nested deeper than 990");
    }

    #[test]
    fn a_template_that_the_engine_fails_on_ends_no_program() {
        // Whatever a later version of the engine makes of it.
        let made = prompt(Some("{{ ''[::-1] }}"), &[], "", "");
        assert!(
            matches!(&made, Ok(text) if text.is_empty()) || matches!(&made, Err(ChatError::Template(_))),
            "{made:?}"
        );
    }

    #[test]
    fn what_the_model_says_may_be_marked() {
        let template =
            "{% for m in messages %}{%- generation -%} {{ m.content }} {%- endgeneration %}!{% endfor %}";
        assert_eq!(prompt(Some(template), &[("user", "a")], "", "").unwrap(), "a!");
        // Found by mutation: the end of a block inside of its begin.
        assert!(matches!(prompt(Some("{%}generation%}"), &[], "", ""), Err(ChatError::Syntax(_))));
    }

    #[test]
    fn tools_and_calls_reach_the_template() {
        let conversations = Conversation::fixed();
        let with_tools = conversations.last().unwrap();
        let template = "{% for tool in tools %}{{ tool | tojson }}{% endfor %}{% for m in messages if m.tool_calls %}\
                        {{ m.tool_calls[0].function.arguments | tojson(ensure_ascii=False) }}{% endfor %}";
        let made = render(template, with_tools, "", "").unwrap();
        // The spelling of `json.dumps` of Python.
        assert!(
            made.starts_with(r#"{"type": "function", "function": {"name": "get_weather", "description": "#),
            "{made}"
        );
        assert!(made.ends_with(r#"{"city": "Zürich"}"#), "{made}");
    }
}
