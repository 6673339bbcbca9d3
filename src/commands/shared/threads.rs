//! The option `--threads` of every binary.

use std::num::NonZeroUsize;

/// Reads a number of threads; the value parser of every `--threads`.
///
/// # Errors
/// Text that is not a number of 1 or more.
pub fn parse_threads(text: &str) -> Result<NonZeroUsize, String> {
    text.parse().map_err(|_| format!("expected a number of threads of 1 or more, found `{text}`"))
}
