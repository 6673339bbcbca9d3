//! Errors of a checkpoint's tokenizer.

use gguf_types::and_more;
use gguf_types::list_names;

/// Tokens that a message names.
const NAMED: usize = 8;

/// The first names of a list, with the number of others.
pub(super) fn listed_names(names: &[String]) -> String {
    names[..names.len().min(NAMED)].join(", ") + &and_more(names.len().saturating_sub(NAMED))
}

/// Why no tokenizer metadata could be made.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages explain the fields")]
pub enum VocabError {
    /// A kind of tokenizer that this program does not convert.
    #[error("{subject}: not supported")]
    NotSupported {
        /// The kind, with the file that it was found in.
        subject: String,
    },
    /// None of the files that a vocabulary could come from is there.
    #[error("no tokenizer found; looked for {expected}")]
    NoTokenizer {
        /// The files that were looked for.
        expected: &'static str,
    },
    /// A file that is not what its name says.
    #[error("`{file}`: {problem}")]
    Malformed { file: String, problem: String },
    /// A token whose id does not fit below the config's `vocab_size`.
    #[error("token `{token}` has id {id}, but the config's `vocab_size` is {vocab_size}")]
    VocabTooLarge {
        /// The token with the largest id.
        token: String,
        id: u64,
        vocab_size: u64,
    },
    /// More tokens than the embedding has rows.
    #[error("the vocabulary has {tokens} tokens, but the token embedding has {rows} rows{}", listed(.without_row))]
    EmbeddingTooSmall {
        /// Known tokens without a row.
        without_row: Vec<String>,
        tokens: u64,
        rows: u64,
    },
    /// Two tokens with one id.
    #[error("duplicate token id {id}: `{first}` and `{second}`")]
    RepeatedId {
        id: u64,
        /// The token that has it first.
        first: String,
        second: String,
    },
    /// An id without a token where the format has no place for one.
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
    /// Nothing is known about how this tokenizer splits text into words.
    #[error("unknown pre-tokenizer: it splits by {found} (token hash {hash}){nearest}")]
    UnknownPre {
        /// The steps of its normal form.
        found: String,
        /// The reference's hash of the test text's tokens, or the reason for its absence.
        hash: String,
        /// The name that is most like it, and in what it differs; nothing if no name is near.
        nearest: String,
    },
}

impl VocabError {
    /// Advice for the user.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            VocabError::UnknownPre { .. } => {
                Some("set a pre-tokenizer name; use the default if it does not matter")
            }
            VocabError::VocabTooLarge { .. } => Some(
                "tokens that were added after training need rows in the embedding as well: call \
                    `resize_token_embeddings` before saving, or remove them from the tokenizer",
            ),
            VocabError::EmbeddingTooSmall { without_row, .. } if without_row.is_empty() => Some(
                "if the tokens without a row are unused, set `vocab_size` in config.json to the number of rows",
            ),
            VocabError::EmbeddingTooSmall { .. } => Some(
                "call `resize_token_embeddings` on the model before saving it, or remove the added tokens \
                    from the tokenizer and restore `vocab_size`",
            ),
            VocabError::NoTokenizer { .. } => Some(
                "copy the tokenizer files next to config.json; for a fine-tune, use those of its base model",
            ),
            _ => None,
        }
    }
}

/// The tokens without a row, at the end of a message.
fn listed(tokens: &[String]) -> String {
    if tokens.is_empty() { String::new() } else { format!("; tokens without a row: {}", list_names(tokens)) }
}
