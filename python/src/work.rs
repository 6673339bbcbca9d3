//! Long work on a separate thread, while Python's thread checks for signals and reports progress.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::Ordering,
        mpsc::{RecvTimeoutError, channel},
    },
    thread,
    time::Duration,
};

use gguf_toolkit::Error;
use pyo3::{exceptions::PyRuntimeError, prelude::*};

use crate::{errors::exception, events::Shared};

/// Interval of the checks on Python's thread.
pub const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The exception of a panic.
pub fn panicked(panic: &(dyn Any + Send)) -> PyErr {
    let words = panic.downcast_ref::<String>().map(String::as_str);
    let words = words.or(panic.downcast_ref::<&str>().copied()).unwrap_or("a panic");
    PyRuntimeError::new_err(format!("internal error of gguf_tools: {words}"))
}

/// Reaction to Ctrl-C and to exceptions in `progress`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnStop {
    /// Wait for the work, which removes unfinished files.
    Wait,
    /// Return at once. The work writes nothing and ends a little later.
    Leave,
}

/// Runs `work` on another thread. Meanwhile this thread passes on messages, calls `progress(done, total)` and lets
/// signals through. An exception of any of these stops the work.
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
        // A panic is a bug of this package and must not end the interpreter.
        let result = catch_unwind(AssertUnwindSafe(|| work(&theirs)));
        let _ = sender.send(result);
    })?;
    let mut reported = None;
    let mut report = || -> PyResult<()> {
        shared.deliver(py)?;
        let now = shared.progress();
        if let Some(progress) = &progress
            && now.1 > 0
            && reported != Some(now)
        {
            reported = Some(now);
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
                report()?;
                return Ok(result);
            }
            Ok(Ok(Err(error))) => {
                // The error matters more than an exception of a message.
                let _ = shared.deliver(py);
                return Err(exception(py, &error));
            }
            Ok(Err(panic)) => return Err(panicked(&*panic)),
            Err(RecvTimeoutError::Disconnected) => {
                return Err(PyRuntimeError::new_err(
                    "internal error of gguf_tools: the work ended without a result",
                ));
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
        if let Err(stop) = py.check_signals().and_then(|()| report()) {
            shared.cancel.store(true, Ordering::Relaxed);
            if on_stop == OnStop::Wait {
                let _ = py.detach(|| worker.join());
            }
            return Err(stop);
        }
    }
}
