//! The template engine, set up as transformers sets up Jinja.

use std::{
    cell::RefCell,
    io::{Error as IoError, Write},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use minijinja::{Environment, ErrorKind, value::Value};

use super::{
    errors::checked_len,
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

/// Longest template. Published ones have up to 30 kB; the time to parse long expressions grows with the square of their length.
const MAX_TEMPLATE: usize = 256 << 10;
/// Longest rendered text.
const MAX_RENDERED: usize = 64 << 20;

thread_local! {
    /// True if this thread should not render anything more.
    static IS_STOPPED: RefCell<Arc<AtomicBool>> = RefCell::default();
}

/// Lets [`render_chat`] on this thread fail once `is_stopped` is true.
pub fn stop_with(is_stopped: Arc<AtomicBool>) {
    IS_STOPPED.set(is_stopped);
}

/// The text that a template makes of a chat. Arguments of calls that are JSON texts, like in OpenAI's interface, become objects unless
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
    if template.len() > MAX_TEMPLATE {
        let message =
            format!("a template of {} bytes is too long; expected at most {MAX_TEMPLATE}", template.len());
        return Err(ChatError::Syntax(message));
    }
    if IS_STOPPED.with_borrow(|is_stopped| is_stopped.load(Ordering::Relaxed)) {
        return Err(ChatError::Template("stopped".to_owned()));
    }
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
        let text = python::text(value)?;
        checked_len(text.len())?;
        output.write_str(&text).map_err(|_| python::invalid("the text cannot be rendered"))
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
    // The text of `raise_exception` is the detail of its error; other errors are described completely.
    let problem = |error: minijinja::Error| match error.kind() {
        ErrorKind::OutOfFuel => {
            format!("limit of {fuel} steps reached; the template may not terminate")
        }
        _ => error.detail().map_or_else(|| error.to_string(), str::to_owned),
    };
    let in_line = |error: minijinja::Error| match error.line() {
        Some(line) => format!("line {line}: {}", problem(error)),
        None => problem(error),
    };
    let compiled =
        environment.template_from_str(&template).map_err(|error| ChatError::Syntax(in_line(error)))?;
    let mut rendered = Rendered::default();
    match compiled.render_captured_to(chat.values(settings), &mut rendered) {
        Ok(_) => String::from_utf8(rendered.text).map_err(|error| ChatError::Template(error.to_string())),
        Err(_) if rendered.is_full => {
            Err(ChatError::Template(format!("the prompt is longer than {MAX_RENDERED} bytes")))
        }
        Err(error) if refused.load(Ordering::Relaxed) => Err(ChatError::Refused(problem(error))),
        Err(error) => Err(ChatError::Template(problem(error))),
    }
}

/// Text that is rendered, up to [`MAX_RENDERED`] bytes.
#[derive(Default)]
struct Rendered {
    text: Vec<u8>,
    is_full: bool,
}

impl Write for Rendered {
    fn write(&mut self, text: &[u8]) -> Result<usize, IoError> {
        self.is_full = self.text.len() + text.len() > MAX_RENDERED;
        if self.is_full {
            return Err(IoError::other("full"));
        }
        self.text.extend_from_slice(text);
        Ok(text.len())
    }

    fn flush(&mut self) -> Result<(), IoError> {
        Ok(())
    }
}
