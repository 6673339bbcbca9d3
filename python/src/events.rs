//! Messages and progress of a run, which Python's thread passes on.

use std::{
    mem,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use gguf_toolkit::{Events, Message, Progress, StatusLine, Words};
use pyo3::prelude::*;

use crate::errors::parts;

/// State shared by Python's thread and the thread of the work.
#[derive(Debug, Default)]
pub struct Shared {
    /// Set to stop the work.
    pub cancel: Arc<AtomicBool>,
    /// The current stage.
    stage: Arc<Mutex<Arc<Counter>>>,
    /// Messages that were not passed on yet.
    messages: Mutex<Vec<Received>>,
}

/// Finished and total work of a stage, in bytes or pieces.
#[derive(Debug, Default)]
struct Counter {
    done: AtomicU64,
    total: AtomicU64,
}

/// A message. The kind is the name of its level in `gguf_tools._events`.
#[derive(Debug)]
struct Received {
    kind: &'static str,
    text: Words,
}

impl Shared {
    /// Finished and total work of the current stage. The total is 0 before the first one.
    pub fn progress(&self) -> (u64, u64) {
        let stage = self.stage.lock().unwrap_or_else(PoisonError::into_inner);
        let total = stage.total.load(Ordering::Relaxed);
        (stage.done.load(Ordering::Relaxed).min(total), total)
    }

    /// Passes on the messages so far.
    ///
    /// # Errors
    /// An exception of the receiver, for example a warning that a filter turns into an error.
    pub fn deliver(&self, py: Python<'_>) -> PyResult<()> {
        let messages = mem::take(&mut *self.messages.lock().unwrap_or_else(PoisonError::into_inner));
        if messages.is_empty() {
            return Ok(());
        }
        let receive = py.import("gguf_tools._events")?.getattr("receive")?;
        for Received { kind, text } in messages {
            receive.call1((kind, parts(py, text.parts())?))?;
        }
        Ok(())
    }
}

impl Events for Shared {
    fn message(&self, message: Message<'_>) {
        let (kind, text) = match message {
            Message::Warning(text) => ("warning", text),
            Message::Note(text) | Message::Status(text) => ("info", text),
            Message::Detail(text) => ("debug", text),
            _ => return,
        };
        let received = Received { kind, text: text.clone() };
        self.messages.lock().unwrap_or_else(PoisonError::into_inner).push(received);
    }

    fn progress(&self, n_bytes: u64) -> Box<dyn Progress + '_> {
        let counter = Arc::new(Counter { done: AtomicU64::new(0), total: AtomicU64::new(n_bytes) });
        *self.stage.lock().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&counter);
        Box::new(Bytes(counter))
    }

    fn status_line(&self) -> Box<dyn StatusLine> {
        Box::new(Pieces { stage: Arc::clone(&self.stage), counter: Arc::default() })
    }

    fn cancel(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.cancel)
    }
}

/// A stage that is counted in bytes.
struct Bytes(Arc<Counter>);

impl Progress for Bytes {
    fn add(&self, n_bytes: u64) {
        self.0.done.fetch_add(n_bytes, Ordering::Relaxed);
    }
}

/// A stage that is counted in pieces. It becomes the current one with its first count.
struct Pieces {
    stage: Arc<Mutex<Arc<Counter>>>,
    counter: Arc<Counter>,
}

impl StatusLine for Pieces {
    fn is_updating(&self) -> bool {
        false
    }

    fn show(&self, _: &str) {}

    fn finish(&self, _: &str) {}

    fn count(&self, done: usize, total: usize) {
        self.counter.total.store(total as u64, Ordering::Relaxed);
        self.counter.done.store(done as u64, Ordering::Relaxed);
        *self.stage.lock().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&self.counter);
    }
}
