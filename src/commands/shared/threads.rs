//! The option `--threads` of every binary.

use std::num::NonZeroUsize;

/// Reads a number of threads; the value parser of every `--threads`.
///
/// # Errors
/// Says what a number of threads is.
pub(in crate::commands) fn parse_threads(text: &str) -> Result<NonZeroUsize, String> {
    text.parse().map_err(|_| format!("expected a number of threads of 1 or more, found `{text}`"))
}

#[cfg(test)]
mod tests {
    use gguf_toolkit::threads::useful_threads;

    use super::*;

    #[test]
    fn thread_counts_are_parsed_and_capped() {
        assert_eq!(parse_threads("8").map(NonZeroUsize::get), Ok(8));
        for text in ["0", "-1", "", "many", "1.5"] {
            assert!(parse_threads(text).unwrap_err().contains("1 or more"), "{text}");
        }
        let available = useful_threads(None);
        assert_eq!(useful_threads(NonZeroUsize::new(1)), 1);
        assert_eq!(useful_threads(NonZeroUsize::new(100_000)), available);
    }
}
