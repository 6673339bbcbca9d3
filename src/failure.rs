//! Exit codes of failures.

use gguf_toolkit::ErrorKind;

pub use gguf_toolkit::Error as Failure;

/// Exit code of a command that failed.
pub const EXIT_FAILURE: u8 = 1;
/// Exit code of a command that was called wrongly; clap uses the same.
pub const EXIT_USAGE: u8 = 2;
/// Exit code of a check that found a file worse than its baseline.
pub const EXIT_WORSE: u8 = 3;
/// Exit code of a command that was interrupted: 128 plus the number of SIGINT, as in shells.
pub const EXIT_INTERRUPTED: u8 = 130;

/// The exit code for a failure.
pub fn exit_code(failure: &Failure) -> u8 {
    match failure.kind() {
        ErrorKind::Usage => EXIT_USAGE,
        ErrorKind::Worse => EXIT_WORSE,
        ErrorKind::Interrupted => EXIT_INTERRUPTED,
        _ => EXIT_FAILURE,
    }
}

/// Hints of a failure, with the options of the command line.
pub fn hint_texts(failure: &Failure) -> Vec<String> {
    failure.hints().iter().map(ToString::to_string).collect()
}
