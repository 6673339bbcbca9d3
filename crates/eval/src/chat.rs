//! Chat templates, applied as transformers applies them.
//!
//! Source: `apply_chat_template` of transformers 5.23: a Jinja template over `messages`, with blocks
//! trimmed, loop controls, `raise_exception`, and the methods of Python's strings and dictionaries.

mod conversation;
mod python_json;

use std::{
    borrow::Cow,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use minijinja::{Environment, ErrorKind, context, value::Value};

pub use conversation::{Conversation, Tool, ToolCall, Turn};

/// Why a template cannot be applied.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChatError {
    /// The file has none.
    #[error("`tokenizer.chat_template` is absent")]
    Absent,
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

/// Steps of a template, after which it is stopped: the longest ones take some thousands for a message.
const FUEL: u64 = 250_000;

/// Bytes of the stack of a template, of which most are never touched. With each step it can put a list into a list, and the
/// engine forgets and prints these by functions that call themselves: 2 kB for each step.
const STACK_BYTES: usize = 512 << 20;

/// The text that a template makes of a conversation, the beginning of the model's own turn behind it.
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
    render_apart(template, conversation, bos, eos, true)
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
    render_apart(template, conversation, bos, eos, false)
}

/// On a thread whose stack is large enough.
fn render_apart(
    template: &str,
    conversation: &Conversation<'_>,
    bos: &str,
    eos: &str,
    goes_on: bool,
) -> Result<String, ChatError> {
    thread::scope(|scope| {
        let thread = thread::Builder::new().stack_size(STACK_BYTES);
        let run = || render_here(template, conversation, bos, eos, goes_on);
        let running = thread.spawn_scoped(scope, run);
        let running = running.map_err(|error| ChatError::Template(format!("no thread for it: {error}")))?;
        // Found by mutation: the engine itself has faults (2.24.0: an empty text that is turned around), which end no program.
        running.join().unwrap_or_else(|_| Err(ChatError::Template("the engine fails on it".to_owned())))
    })
}

/// [`render`] or [`transcript`], on the stack that it is called on.
fn render_here(
    template: &str,
    conversation: &Conversation<'_>,
    bos: &str,
    eos: &str,
    goes_on: bool,
) -> Result<String, ChatError> {
    let mut environment = Environment::new();
    environment.set_fuel(Some(FUEL));
    // As transformers sets up Jinja: `trim_blocks` and `lstrip_blocks`, without which every template prints other blanks.
    environment.set_trim_blocks(true);
    environment.set_lstrip_blocks(true);
    environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
    let refused = Arc::new(AtomicBool::new(false));
    let says_so = Arc::clone(&refused);
    environment.add_function("raise_exception", move |text: String| -> Result<Value, minijinja::Error> {
        says_so.store(true, Ordering::Relaxed);
        Err(minijinja::Error::new(ErrorKind::InvalidOperation, text))
    });
    // A fixed day, so that the same prompt gives the same text.
    environment.add_function("strftime_now", |_format: String| "01 Jan 2026");
    environment.add_filter("tojson", python_json::filter);
    // The text of `raise_exception` is the detail of its error; other errors are described as a whole.
    let problem = |error: minijinja::Error| error.detail().map_or_else(|| error.to_string(), str::to_owned);
    let template = without_generation_blocks(template);
    let compiled =
        environment.template_from_str(&template).map_err(|error| ChatError::Syntax(problem(error)))?;
    // Templates ask whether there are tools at all, as in transformers, where none are `None`.
    let tools: Vec<Value> = conversation.tools.iter().map(Tool::value).collect();
    let tools = (!tools.is_empty()).then_some(tools);
    let messages: Vec<Value> = conversation.messages.iter().map(Turn::value).collect();
    let values = context! {
        messages => messages,
        tools => tools,
        add_generation_prompt => goes_on,
        bos_token => bos,
        eos_token => eos,
    };
    compiled.render(values).map_err(|error| match refused.load(Ordering::Relaxed) {
        true => ChatError::Refused(problem(error)),
        false => ChatError::Template(problem(error)),
    })
}

/// The template with `{% generation %}` made a block that is always there: transformers marks with it what the model says itself, and
/// prints the same.
fn without_generation_blocks(template: &str) -> Cow<'_, str> {
    if !template.contains("generation") {
        return Cow::Borrowed(template);
    }
    let mut made = String::with_capacity(template.len());
    let mut rest = template;
    while let Some(at) = rest.find("{%") {
        // Behind the sign: `{%}` is no whole block.
        let Some(len) = rest[at + 2..].find("%}").map(|len| len + 2) else { break };
        let block = &rest[at + 2..at + len];
        // Signs that trim blanks stay where they are.
        let word = block.trim_matches(|c: char| c.is_whitespace() || c == '-' || c == '+');
        let stands_for = match word {
            "generation" => Some("if true"),
            "endgeneration" => Some("endif"),
            _ => None,
        };
        made += &rest[..at + 2];
        made += &stands_for.map_or(Cow::Borrowed(block), |it| Cow::Owned(block.replace(word, it)));
        rest = &rest[at + len..];
    }
    made += rest;
    Cow::Owned(made)
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
        let printed = prompt(Some(&format!("{nested}{{{{ n.x }}}}")), &[], "", "").unwrap();
        assert_eq!(printed.len(), 2 * 64 * 3500 + 1);
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
