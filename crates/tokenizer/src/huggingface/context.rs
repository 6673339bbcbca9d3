//! Requirements for a tokenizer, from the architecture and the caller.

/// Requirements for a tokenizer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct VocabContext {
    /// `vocab_size` of the (text) config: the number of tokens to write; free ids below it become
    /// `[PAD{id}]`. `None` if the config does not state it.
    pub vocab_size: Option<u64>,
    /// `general.architecture`, or empty. llama.cpp applies some token flags by it.
    pub architecture: String,
    /// `general.name`, or empty; also used for token flags.
    pub model_name: String,
    /// Rows of the token embedding: every token must have one, and rows without a token become `[PAD{id}]`.
    pub embedding_rows: Option<u64>,
    /// A user's choice of `tokenizer.ggml.pre`, used unchanged.
    pub pre: Option<String>,
    /// `type_vocab_size` of the config: sentence types of a BERT; 1 by default.
    pub type_vocab_size: Option<u64>,
    /// `eod_token_id` of the config: the token that ends a document.
    pub end_of_document: Option<u64>,
    /// Also stores the tokenizer's own file in the metadata (`tokenizer.huggingface.json`,
    /// `tokenizer.rwkv.world`).
    pub embed_json: bool,
    /// Gives equal scores to all tokens of a llama tokenizer that exists only as tokenizer.json, like the
    /// reference. Without it, scores are derived from merges, so that llama.cpp tokenizes like the model.
    pub equal_scores: bool,
}

impl VocabContext {
    /// The number of token types, for `tokenizer.ggml.token_type_count`.
    pub fn token_types(&self) -> u32 {
        self.type_vocab_size.and_then(|n| u32::try_from(n).ok()).unwrap_or(1)
    }
}
