//! Messages and progress of a run, which Python's thread reports.

use std::{
    mem,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use gguf_toolkit::{Events, Message, Progress, StatusLine};

use crate::work::Shared;

/// Events of one run. Warnings are kept until the run is over; notes and finished steps are not for programs.
pub struct Reported<'a> {
    shared: &'a Shared,
    warnings: Mutex<Vec<String>>,
}

impl<'a> Reported<'a> {
    /// Reports progress to `shared`.
    pub fn new(shared: &'a Shared) -> Reported<'a> {
        Reported { shared, warnings: Mutex::default() }
    }

    /// Takes out the warnings so far.
    pub fn take_warnings(&self) -> Vec<String> {
        mem::take(&mut self.warnings.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Events for Reported<'_> {
    fn message(&self, message: Message<'_>) {
        if let Message::Warning(text) = message {
            self.warnings.lock().unwrap_or_else(PoisonError::into_inner).push(text.to_owned());
        }
    }

    fn progress(&self, n_bytes: u64) -> Box<dyn Progress + '_> {
        Box::new(Stage { shared: self.shared, done: AtomicU64::new(0), total: n_bytes })
    }

    fn status_line(&self) -> Box<dyn StatusLine> {
        Box::new(self.shared.counter())
    }

    fn cancel(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.shared.cancel)
    }
}

struct Stage<'a> {
    shared: &'a Shared,
    done: AtomicU64,
    total: u64,
}

impl Progress for Stage<'_> {
    fn add(&self, n_bytes: u64) {
        let before = self.done.fetch_add(n_bytes, Ordering::Relaxed);
        self.shared.report(before.saturating_add(n_bytes), self.total);
    }
}
