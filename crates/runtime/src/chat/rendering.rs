//! The template engine, set up as transformers sets up Jinja.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use minijinja::{Environment, ErrorKind, value::Value};

use super::{
    filters, named, operators, python,
    reading::Chat,
    settings::{ChatError, Settings, SystemMessage},
    source,
};

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

/// The text that a template makes of a chat. Arguments of calls that are JSON texts, as in OpenAI's interface, become objects unless
/// the template prints them as they are (`func_args_not_string` in `common/chat.cpp` of llama.cpp).
///
/// # Errors
/// [`ChatError::Named`], [`ChatError::Syntax`], [`ChatError::Refused`], [`ChatError::Template`]; the last also for a template that
/// does not end.
///
/// # Examples
/// ```
/// use gguf_runtime::chat::{Chat, Date, Settings, SpecialTokens, render_chat};
/// let chat = Chat::parse(r#"[{"role": "user", "content": "Hi"}]"#).unwrap();
/// let tokens = SpecialTokens::new("<s>", "</s>");
/// let settings = Settings { tokens: &tokens, generation_prompt: true, date: Date::FIXED };
/// assert_eq!(render_chat("{{ bos_token }}{{ messages[0].content }}", &chat, &settings).unwrap(), "<s>Hi");
/// ```
pub fn render_chat(template: &str, chat: &Chat, settings: &Settings<'_>) -> Result<String, ChatError> {
    let made = render_unchanged(template, chat, settings);
    let Some(parsed) = chat.with_parsed_arguments() else { return made };
    match made {
        Ok(text) if chat.arguments_are_in(&text) => Ok(text),
        made => render_unchanged(template, &parsed, settings).or(made),
    }
}

/// Same as [`render_chat`], for templates that refuse system messages, too.
///
/// # Errors
/// As [`render_chat`].
pub fn render_with_system(
    template: &str,
    chat: &Chat,
    settings: &Settings<'_>,
) -> Result<(String, SystemMessage), ChatError> {
    match (render_chat(template, chat, settings), chat.with_system_in_next()) {
        (Err(ChatError::Refused(problem)), Some(moved)) => match render_chat(template, &moved, settings) {
            Ok(text) => Ok((text, SystemMessage::InNext)),
            Err(_) => Err(ChatError::Refused(problem)),
        },
        (made, _) => made.map(|text| {
            let system = chat.system_message_in(&text);
            (text, system)
        }),
    }
}

/// [`render_chat`] with the chat as it is.
fn render_unchanged(template: &str, chat: &Chat, settings: &Settings<'_>) -> Result<String, ChatError> {
    let (n_bytes, n_messages) = chat.size();
    let fuel = FUEL + FUEL_PER_BYTE * n_bytes + FUEL_PER_PAIR * n_messages.saturating_mul(n_messages);
    let stack = (fuel * STACK_BYTES_PER_STEP).clamp(*STACK_BYTES.start(), *STACK_BYTES.end());
    // On a thread whose stack is large enough.
    thread::scope(|scope| {
        let thread = thread::Builder::new().stack_size(usize::try_from(stack).unwrap_or(512 << 20));
        let running = thread.spawn_scoped(scope, || render_here(template, chat, settings, fuel));
        let running = running.map_err(|error| ChatError::Template(format!("no thread for it: {error}")))?;
        running
            .join()
            .unwrap_or_else(|_| Err(ChatError::Template("internal error of the template engine".to_owned())))
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
        output.write_str(&python::text(value)?).map_err(|_| python::invalid("the text cannot be rendered"))
    });
    let refused = Arc::new(AtomicBool::new(false));
    let is_refused = Arc::clone(&refused);
    environment.add_function("raise_exception", move |text: Value| -> Result<Value, minijinja::Error> {
        is_refused.store(true, Ordering::Relaxed);
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
            format!("limit of {fuel} steps reached; the template may not terminate")
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
