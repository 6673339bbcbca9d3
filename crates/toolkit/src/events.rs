//! Messages, progress and cancellation of a run.

use std::sync::{Arc, atomic::AtomicBool};

use gguf_types::Words;

use crate::error::Error;

/// Receives the messages and the progress of a run. Every method has an empty default, so that `()` ignores everything.
///
/// # Examples
/// ```
/// use gguf_toolkit::{Events, Message};
///
/// struct Log;
///
/// impl Events for Log {
///     fn message(&self, message: Message<'_>) {
///         println!("{message:?}");
///     }
/// }
/// ```
pub trait Events: Sync {
    /// A message for people.
    fn message(&self, message: Message<'_>) {
        let _ = message;
    }

    /// A stage that processes `n_bytes` of input begins. It ends when the result is dropped.
    fn progress(&self, n_bytes: u64) -> Box<dyn Progress + '_> {
        let _ = n_bytes;
        Box::new(())
    }

    /// A stage with an intermediate result to show begins. It ends when the result is dropped.
    fn status_line(&self) -> Box<dyn StatusLine> {
        Box::new(())
    }

    /// A flag that cancels the run when it becomes true.
    fn cancel(&self) -> Arc<AtomicBool> {
        Arc::default()
    }

    /// Work begins that may take long to notice a cancellation. Until the result is dropped, the receiver may end the
    /// process instead, with the error that `words` returns; nothing is lost by that.
    fn ends_soon(&self, words: Box<dyn Fn() -> Error + Send>) -> Box<dyn Guard + '_> {
        let _ = words;
        Box::new(())
    }
}

/// A message of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Message<'a> {
    /// Something that may not be what the caller wants.
    Warning(&'a Words),
    /// A fact that the caller should know.
    Note(&'a Words),
    /// A finished step.
    Status(&'a Words),
    /// A fact for those who want to know more.
    Detail(&'a Words),
}

/// Progress of a stage that processes bytes.
pub trait Progress: Sync {
    /// This many more bytes are done. Called from any thread.
    fn add(&self, n_bytes: u64);
}

/// A line that is replaced while a stage runs.
pub trait StatusLine {
    /// True if the line is updated in place, as on a terminal.
    fn is_updating(&self) -> bool;
    /// Replaces the text.
    fn show(&self, text: &str);
    /// Replaces the text by the final one. A stage that fails or is cancelled does not call it.
    fn finish(&self, text: &str);
    /// Reports that `done` of `total` pieces are done, those of an earlier run included. Called after every piece.
    fn count(&self, done: usize, total: usize) {
        let _ = (done, total);
    }
}

/// Something that ends when it is dropped.
pub trait Guard {}

impl Guard for () {}

impl Events for () {}

impl Progress for () {
    fn add(&self, _: u64) {}
}

impl StatusLine for () {
    fn is_updating(&self) -> bool {
        false
    }

    fn show(&self, _: &str) {}

    fn finish(&self, _: &str) {}
}

impl dyn Events + '_ {
    /// Reports something that may not be what the caller wants.
    pub fn warning(&self, text: impl Into<Words>) {
        self.message(Message::Warning(&text.into()));
    }

    /// Reports a fact that the caller should know.
    pub fn note(&self, text: impl Into<Words>) {
        self.message(Message::Note(&text.into()));
    }

    /// Reports a finished step.
    pub fn status(&self, text: impl Into<Words>) {
        self.message(Message::Status(&text.into()));
    }

    /// Reports a fact for those who want to know more.
    pub fn detail(&self, text: impl Into<Words>) {
        self.message(Message::Detail(&text.into()));
    }
}
