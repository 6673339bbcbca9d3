//! Rules for metadata keys.

use std::fmt;

/// Maximum length of a key in bytes (specification, `gguf_metadata_kv_t`).
pub const MAX_KEY_BYTES: usize = 65535;

/// Key that states the alignment of a file's data.
pub const ALIGNMENT_KEY: &str = "general.alignment";

/// Default alignment.
pub const DEFAULT_ALIGNMENT: u32 = 32;

/// Reason that a key does not conform to the specification.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyProblem {
    /// Empty. Refused by every reader.
    Empty,
    /// More than [`MAX_KEY_BYTES`]. Refused in plans and by our reader.
    TooLong {
        /// Its length in bytes.
        len: u64,
    },
    /// Characters beyond ASCII. Refused in plans, accepted by the reader.
    NotAscii {
        /// The key.
        key: String,
    },
    /// A part between dots that is not lower_snake_case. Written and read: the reference
    /// itself writes such keys (`command-r.block_count`, `tokenizer.chat_template.RAG`).
    Part {
        /// The key.
        key: String,
        /// The part between dots.
        part: String,
    },
}

impl KeyProblem {
    /// True if a plan refuses the key; other problems are only reported.
    pub fn is_fatal(&self) -> bool {
        !matches!(self, KeyProblem::Part { .. })
    }
}

impl fmt::Display for KeyProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeyProblem::Empty => write!(f, "the key is empty"),
            KeyProblem::TooLong { len } => {
                write!(f, "expected at most {MAX_KEY_BYTES} bytes, found {len}")
            }
            KeyProblem::NotAscii { key } => write!(f, "key `{key}` is not ASCII"),
            KeyProblem::Part { key, part } => {
                write!(f, "part `{part}` of key `{key}` is not lower_snake_case")
            }
        }
    }
}

/// Checks a key against the specification: ASCII, parts of lower_snake_case joined by dots,
/// at most [`MAX_KEY_BYTES`]. The gravest problem is reported.
///
/// # Errors
/// [`KeyProblem`]; see [`KeyProblem::is_fatal`] for those that a plan refuses.
pub fn check_key(key: &str) -> Result<(), KeyProblem> {
    if key.is_empty() {
        return Err(KeyProblem::Empty);
    }
    if key.len() > MAX_KEY_BYTES {
        return Err(KeyProblem::TooLong { len: key.len() as u64 });
    }
    if !key.is_ascii() {
        return Err(KeyProblem::NotAscii { key: key.to_owned() });
    }
    let is_snake = |part: &str| {
        !part.is_empty() && part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
    };
    match key.split('.').find(|part| !is_snake(part)) {
        None => Ok(()),
        Some(part) => Err(KeyProblem::Part { key: key.to_owned(), part: part.to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_validated() {
        for good in ["general.architecture", "llama.rope.scaling.factor", "split.no", "a", "x_1.2"] {
            assert_eq!(check_key(good), Ok(()));
        }
        assert_eq!(check_key(""), Err(KeyProblem::Empty));
        assert_eq!(check_key(&"k".repeat(65535)), Ok(()));
        assert_eq!(check_key(&"k".repeat(65536)), Err(KeyProblem::TooLong { len: 65536 }));
        assert!(matches!(check_key("ключ"), Err(KeyProblem::NotAscii { .. })));
        for (odd, part) in [
            ("command-r.block_count", "command-r"),
            ("tokenizer.chat_template.RAG", "RAG"),
            ("a..b", ""),
            ("a.b.", ""),
            ("a b", "a b"),
        ] {
            let problem = check_key(odd).unwrap_err();
            assert_eq!(problem, KeyProblem::Part { key: odd.into(), part: part.into() });
            assert!(!problem.is_fatal());
        }
    }
}
