//! Failures of commands: message, hints and exit code.

use std::{fmt, path::Path};

/// Exit code of a command that failed.
pub const EXIT_FAILURE: u8 = 1;
/// Exit code of a command that was called wrongly; clap uses the same.
pub const EXIT_USAGE: u8 = 2;
/// Exit code of a command that was interrupted: 128 and the number of SIGINT, as shells have it.
pub const EXIT_INTERRUPTED: u8 = 130;

/// A message, advice apart from it, and the exit code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The facts: lower case, no full stop.
    pub message: String,
    /// Hints, one per line.
    pub hints: Vec<String>,
    /// The exit code of the process.
    pub code: u8,
}

impl Failure {
    /// A failure of exit code [`EXIT_FAILURE`].
    pub fn new(message: impl fmt::Display) -> Failure {
        Failure { message: message.to_string(), hints: Vec::new(), code: EXIT_FAILURE }
    }

    /// A wrong call, of exit code [`EXIT_USAGE`].
    pub fn usage(message: impl fmt::Display) -> Failure {
        Failure { code: EXIT_USAGE, ..Failure::new(message) }
    }

    /// An end by Ctrl-C, of exit code [`EXIT_INTERRUPTED`].
    pub fn interrupted() -> Failure {
        Failure { code: EXIT_INTERRUPTED, ..Failure::new("interrupted") }
    }

    /// The same with the path of the file or folder that it is about, said once, here.
    pub fn at(path: &Path, error: impl fmt::Display) -> Failure {
        Failure::new(format_args!("{}: {error}", path.display()))
    }

    /// A file or folder that cannot be opened: one spelling for all commands.
    pub fn cannot_open(path: &Path, error: std::io::Error) -> Failure {
        Failure::at(path, format_args!("cannot open: {error}"))
    }

    /// The same with advice, if there is any.
    pub fn hint(mut self, hint: impl IntoIterator<Item = impl Into<String>>) -> Failure {
        self.hints.extend(hint.into_iter().map(Into::into));
        self
    }
}
