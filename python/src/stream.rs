//! Text that a model generates on a separate thread, while Python takes the pieces.

use std::{
    ops::ControlFlow,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel},
    },
    thread,
};

use gguf_toolkit::{Chat, ChatOptions, ChatSession, Error, Events, GenerateOptions, Message, Model, Words};
use pyo3::{prelude::*, types::PyString};

use crate::{
    errors::{exception, parts},
    work::{LOOK_EVERY, panicked},
};

/// Number of pieces that wait for Python. If the queue is full, the model waits, so unread text is not generated.
const MOST_PIECES: usize = 64;

/// Text to continue, or a chat to answer.
pub enum Prompt {
    /// A text.
    Text(String),
    /// Messages, and options of their template.
    Chat(Box<Chat>, ChatOptions),
    /// A message of a chat of several turns.
    Turn(Arc<Mutex<ChatSession<Arc<Model>>>>, String),
}

/// Event of a generation. A closed channel is its end.
enum Step {
    Text(String),
    Warning(Words),
    Failed(Error),
    Panicked(Box<dyn std::any::Any + Send>),
}

/// Passes on steps. Fails silently after the receiver is gone.
struct Steps {
    sender: SyncSender<Step>,
    cancel: Arc<AtomicBool>,
}

impl Events for Steps {
    fn message(&self, message: Message<'_>) {
        if let Message::Warning(text) = message {
            let _ = self.sender.send(Step::Warning(text.clone()));
        }
    }

    fn cancel(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.cancel)
    }
}

impl Steps {
    /// Generates the text. At the end, sends the rest of it: the bytes of an incomplete character.
    fn generate(&self, model: &Model, prompt: &Prompt, options: &GenerateOptions) -> Result<(), Error> {
        let mut shown = String::new();
        let mut on_text = |text: &str| {
            shown += text;
            match self.sender.send(Step::Text(text.to_owned())) {
                Ok(()) => ControlFlow::Continue(()),
                Err(_) => ControlFlow::Break(()),
            }
        };
        let text = match prompt {
            Prompt::Text(text) => model.generate(text, options, &mut on_text, self)?.text,
            Prompt::Chat(chat, template) => {
                model.generate_chat(chat, template, options, &mut on_text, self)?.text
            }
            Prompt::Turn(session, message) => {
                let mut session = session.lock().unwrap_or_else(PoisonError::into_inner);
                session.ask(message, &mut on_text, &|| self.cancel.load(Ordering::Relaxed))?.text
            }
        };
        if let Some(left) = text.strip_prefix(&shown).filter(|left| !left.is_empty()) {
            let _ = self.sender.send(Step::Text(left.to_owned()));
        }
        Ok(())
    }
}

/// Text while it is generated.
#[pyclass(frozen, module = "gguf_tools._native")]
pub struct TextStream {
    steps: Mutex<Option<Receiver<Step>>>,
    cancel: Arc<AtomicBool>,
}

impl Drop for TextStream {
    fn drop(&mut self) {
        self.cancel.store(true, Ordering::Relaxed);
    }
}

impl TextStream {
    /// Starts a generation on a thread. It stops soon after the stream is closed or dropped.
    pub fn start(model: Arc<Model>, prompt: Prompt, options: GenerateOptions) -> PyResult<TextStream> {
        let (sender, receiver) = sync_channel(MOST_PIECES);
        let cancel = Arc::new(AtomicBool::new(false));
        let steps = Steps { sender, cancel: Arc::clone(&cancel) };
        thread::Builder::new().name("gguf_tools".to_owned()).spawn(move || {
            let done = catch_unwind(AssertUnwindSafe(|| steps.generate(&model, &prompt, &options)));
            let last = match done {
                Ok(Ok(())) => return,
                Ok(Err(error)) => Step::Failed(error),
                Err(panic) => Step::Panicked(panic),
            };
            let _ = steps.sender.send(last);
        })?;
        Ok(TextStream { steps: Mutex::new(Some(receiver)), cancel })
    }
}

#[pymethods]
impl TextStream {
    /// The next piece of text, or the parts of a warning if the first value is true; None at the end.
    fn next<'py>(&self, py: Python<'py>) -> PyResult<Option<(bool, Bound<'py, PyAny>)>> {
        loop {
            // The lock is only taken without the interpreter's, so that two threads cannot wait for each other.
            let step = py.detach(|| match &*self.steps.lock().unwrap_or_else(PoisonError::into_inner) {
                Some(steps) => steps.recv_timeout(LOOK_EVERY),
                None => Err(RecvTimeoutError::Disconnected),
            });
            match step {
                Ok(Step::Text(text)) => return Ok(Some((false, PyString::new(py, &text).into_any()))),
                Ok(Step::Warning(text)) => return Ok(Some((true, parts(py, text.parts())?.into_any()))),
                Ok(Step::Failed(error)) => return Err(exception(py, &error)),
                Ok(Step::Panicked(panic)) => return Err(panicked(&*panic)),
                Err(RecvTimeoutError::Disconnected) => return Ok(None),
                Err(RecvTimeoutError::Timeout) => py.check_signals()?,
            }
        }
    }

    /// Stops the generation.
    fn close(&self, py: Python<'_>) {
        self.cancel.store(true, Ordering::Relaxed);
        py.detach(|| self.steps.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}
