//! Errors of a checkpoint's tokenizer.

use gguf_types::{Problem, Words, and_more, list_names, words};

/// Maximum number of tokens in a message.
const NAMED: usize = 8;

/// The first names of a list, with the number of others.
pub(super) fn listed_names(names: &[String]) -> String {
    names[..names.len().min(NAMED)].join(", ") + &and_more(names.len().saturating_sub(NAMED))
}

/// Reason that no tokenizer metadata could be created.
#[derive(Debug, Clone, PartialEq, thiserror::Error, gguf_types::Fields)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages explain the fields")]
pub enum VocabError {
    #[error("{subject}: not supported")]
    NotSupported {
        /// Kind, and the file that shows it.
        subject: String,
    },
    /// No file with a vocabulary exists.
    #[error("no tokenizer found; looked for {expected}")]
    NoTokenizer { expected: &'static str },
    #[error("`{file}`: {problem}")]
    Malformed { file: String, problem: String },
    /// A token's id is not below the config's `vocab_size`.
    #[error("token `{token}` has id {id}, but the config's `vocab_size` is {vocab_size}")]
    VocabTooLarge { token: String, id: u64, vocab_size: u64 },
    /// More tokens than rows of the embedding.
    #[error("the vocabulary has {tokens} tokens, but the token embedding has {rows} rows{}", listed(.without_row))]
    EmbeddingTooSmall {
        /// Known tokens without a row.
        without_row: Vec<String>,
        tokens: u64,
        rows: u64,
    },
    /// Two tokens have the same id.
    #[error("duplicate token id {id}: `{first}` and `{second}`")]
    RepeatedId { id: u64, first: String, second: String },
    /// An id has no token, which the format does not allow.
    #[error("`{file}`: missing token with id {id} ({tokens} tokens are listed)")]
    MissingId { file: &'static str, id: u64, tokens: u64 },
    /// A merge of tokens that are not in the vocabulary.
    #[error(
        "`{file}`: merge {index} (`{left}` + `{right}`) needs token `{token}`, which is not in the vocabulary"
    )]
    MergeOfUnknown {
        file: &'static str,
        /// Position in the list of merges.
        index: usize,
        left: String,
        right: String,
        token: String,
    },
    #[error("unknown pre-tokenizer: it splits by {found} (token hash {hash}){nearest}")]
    UnknownPre {
        found: String,
        /// Reference's hash of the test text's tokens, or the reason for its absence.
        hash: String,
        /// Most similar name and its differences; empty if no name is near.
        nearest: String,
    },
}

impl Problem for VocabError {
    fn hint(&self) -> Option<Words> {
        let hint = match self {
            VocabError::UnknownPre { .. } => {
                return Some(words!(
                    "set it with `[-pre NAME]`, or use `[-pre default]` if it does not matter"
                ));
            }
            VocabError::VocabTooLarge { .. } => {
                "tokens that were added after training need rows in the embedding as well: call \
                    `resize_token_embeddings` before saving, or remove them from the tokenizer"
            }
            VocabError::EmbeddingTooSmall { without_row, .. } if without_row.is_empty() => {
                "if the tokens without a row are unused, set `vocab_size` in config.json to the number of rows"
            }
            VocabError::EmbeddingTooSmall { .. } => {
                "call `resize_token_embeddings` on the model before saving it, or remove the added tokens \
                    from the tokenizer and restore `vocab_size`"
            }
            VocabError::NoTokenizer { .. } => {
                "copy the tokenizer files next to config.json; for a fine-tune, use those of its base model"
            }
            _ => return None,
        };
        Some(hint.into())
    }
}

/// Tokens without a row, at the end of a message.
fn listed(tokens: &[String]) -> String {
    if tokens.is_empty() { String::new() } else { format!("; tokens without a row: {}", list_names(tokens)) }
}
