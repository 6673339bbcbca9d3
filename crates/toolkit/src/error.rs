//! One error type for all calls: the problem, its file and hints.

use std::{
    fmt, io,
    path::{Path, PathBuf},
};

use gguf_types::{Facts, Fields as _, Problem as _, Words, words};

use crate::cause::Cause;

/// Reason why a call failed. `Debug` writes the message and the hints, as a program prints them whose `main` returns an error.
pub struct Error {
    kind: ErrorKind,
    path: Option<PathBuf>,
    cause: Box<Cause>,
    hints: Vec<Words>,
}

/// Kind of an error. The command line maps each kind to an exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The work failed.
    Failed,
    /// The options are invalid or contradict each other.
    Usage,
    /// A measurement is worse than its limit.
    Worse,
    /// The caller cancelled the run.
    Interrupted,
}

impl Error {
    /// An error without a file.
    pub fn new(cause: impl Into<Cause>) -> Error {
        let cause = cause.into();
        let kind = if cause.is_interruption() { ErrorKind::Interrupted } else { ErrorKind::Failed };
        Error { kind, path: None, cause: Box::new(cause), hints: Vec::new() }
    }

    /// Invalid options.
    pub fn usage(cause: impl Into<Cause>) -> Error {
        Error { kind: ErrorKind::Usage, ..Error::new(cause) }
    }

    /// A measurement of the file at `path` that is worse than its limit.
    pub fn worse(path: &Path, cause: impl Into<Cause>) -> Error {
        Error { kind: ErrorKind::Worse, ..Error::at(path, cause) }
    }

    /// A run that the caller cancelled.
    pub fn interrupted() -> Error {
        Error::new(Cause::Interrupted)
    }

    /// A run that the caller cancelled, with a more detailed message.
    pub fn interrupted_as(cause: impl Into<Cause>) -> Error {
        Error { kind: ErrorKind::Interrupted, ..Error::new(cause) }
    }

    /// An error about a file or folder.
    pub fn at(path: &Path, cause: impl Into<Cause>) -> Error {
        Error { path: Some(path.to_owned()), ..Error::new(cause) }
    }

    /// A file or folder that cannot be opened.
    pub fn cannot_open(path: &Path, error: io::Error) -> Error {
        Error::at(path, format_args!("cannot open: {error}"))
    }

    /// The same error, without its file if that is `path`.
    pub(crate) fn without_path(mut self, path: &Path) -> Error {
        self.path = self.path.filter(|own| own != path);
        self
    }

    /// The same error with more hints, if there are any.
    #[must_use]
    pub fn hint(mut self, hints: impl IntoIterator<Item = impl Into<Words>>) -> Error {
        self.hints.extend(hints.into_iter().map(Into::into));
        self
    }

    /// The file or folder that the error is about; none if there is no such file.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// The problem.
    pub fn cause(&self) -> &Cause {
        &self.cause
    }

    /// The kind of the error.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The facts of the message by name: `file`, `tensor`, `key`, `expected` and `found`.
    pub fn facts(&self) -> Facts {
        self.cause.facts()
    }

    /// The message, with options and commands as values.
    pub fn message(&self) -> Words {
        let cause = match &*self.cause {
            Cause::Message(message) => message.clone(),
            cause => cause.to_string().into(),
        };
        match &self.path {
            Some(path) if !self.cause.names_its_file() => words!("{}: ", path.display()) + cause,
            _ => cause,
        }
    }

    /// Hints, one sentence each.
    pub fn hints(&self) -> Vec<Words> {
        self.cause.hint().into_iter().chain(self.hints.iter().cloned()).collect()
    }

    /// True if the caller cancelled the run.
    pub fn is_interrupted(&self) -> bool {
        self.kind == ErrorKind::Interrupted
    }
}

impl<C: Into<Cause>> From<C> for Error {
    fn from(cause: C) -> Error {
        Error::new(cause)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.message().fmt(f)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")?;
        self.hints().iter().try_for_each(|hint| write!(f, "\nhint: {hint}"))
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.cause.source()
    }
}
