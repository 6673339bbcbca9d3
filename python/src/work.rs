//! Long work on a separate thread, while Python's thread checks for signals and reports progress.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc::{RecvTimeoutError, channel},
    },
    thread,
    time::Duration,
};

use gguf_toolkit::{Error, StatusLine};
use pyo3::{exceptions::PyRuntimeError, prelude::*};

use crate::errors::exception;

/// Interval of the checks on Python's thread.
pub const LOOK_EVERY: Duration = Duration::from_millis(50);

/// State shared by the two threads.
#[derive(Debug, Default)]
pub struct Shared {
    /// Set to stop the work.
    pub cancel: Arc<AtomicBool>,
    progress: Arc<Counter>,
}

/// Finished work, and all of it.
#[derive(Debug, Default)]
struct Counter {
    done: AtomicU64,
    total: AtomicU64,
}

impl Shared {
    /// Says how much is done; may come in any order.
    pub fn report(&self, done: u64, total: u64) {
        self.progress.total.store(total, Ordering::Relaxed);
        self.progress.done.fetch_max(done, Ordering::Relaxed);
    }

    /// Receives the progress of a stage that is counted in pieces.
    pub fn counter(&self) -> impl StatusLine + use<> {
        Pieces(Arc::clone(&self.progress))
    }
}

/// A stage that is counted in pieces.
struct Pieces(Arc<Counter>);

impl StatusLine for Pieces {
    fn is_updating(&self) -> bool {
        false
    }

    fn show(&self, _: &str) {}

    fn finish(&self, _: &str) {}

    fn count(&self, done: usize, total: usize) {
        self.0.total.store(total as u64, Ordering::Relaxed);
        self.0.done.store(done as u64, Ordering::Relaxed);
    }
}

/// The exception of a panic.
pub fn panicked(panic: &(dyn Any + Send)) -> PyErr {
    let words = panic.downcast_ref::<String>().map(String::as_str);
    let words = words.or(panic.downcast_ref::<&str>().copied()).unwrap_or("a panic");
    PyRuntimeError::new_err(format!("internal error of gguf_tools: {words}"))
}

/// Reaction to Ctrl-C and to exceptions in `progress`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnStop {
    /// The work is waited for, which removes what it has begun.
    Wait,
    /// The work ends by itself a little later; it leaves nothing anyway.
    Leave,
}

/// Does `work`, calls `progress(done, total)` on this thread meanwhile, and lets signals through.
pub fn run<R: Send + 'static>(
    py: Python<'_>,
    progress: Option<Py<PyAny>>,
    on_stop: OnStop,
    work: impl FnOnce(&Shared) -> Result<R, Error> + Send + 'static,
) -> PyResult<R> {
    let shared = Arc::new(Shared::default());
    let (sender, receiver) = channel();
    let theirs = Arc::clone(&shared);
    let worker = thread::Builder::new().name("gguf_tools".to_owned()).spawn(move || {
        // A panic is our mistake; it must not take the interpreter with it.
        let result = catch_unwind(AssertUnwindSafe(|| work(&theirs)));
        let _nobody_waits = sender.send(result);
    })?;
    let mut reported = None;
    let report = |reported: &mut Option<(u64, u64)>| -> PyResult<()> {
        let now =
            (shared.progress.done.load(Ordering::Relaxed), shared.progress.total.load(Ordering::Relaxed));
        if let Some(progress) = &progress
            && now.1 > 0
            && *reported != Some(now)
        {
            *reported = Some(now);
            progress.call1(py, now)?;
        }
        Ok(())
    };
    // Moved into the section without the interpreter's lock; no other thread takes it.
    let receiver = Mutex::new(receiver);
    loop {
        let received = py.detach(|| {
            let receiver = receiver.lock().unwrap_or_else(PoisonError::into_inner);
            receiver.recv_timeout(LOOK_EVERY)
        });
        match received {
            Ok(Ok(Ok(result))) => {
                report(&mut reported)?;
                return Ok(result);
            }
            Ok(Ok(Err(error))) => return Err(exception(py, &error)),
            Ok(Err(panic)) => return Err(panicked(&*panic)),
            Err(RecvTimeoutError::Disconnected) => {
                return Err(PyRuntimeError::new_err(
                    "internal error of gguf_tools: the work ended without a result",
                ));
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
        if let Err(stop) = py.check_signals().and_then(|()| report(&mut reported)) {
            shared.cancel.store(true, Ordering::Relaxed);
            if on_stop == OnStop::Wait {
                let _joined = py.detach(|| worker.join());
            }
            return Err(stop);
        }
    }
}
