//! Names of the metadata keys of tokenizers.

/// Kind of vocabulary: `llama`, `gpt2`, `bert` and so on.
pub const MODEL: &str = "tokenizer.ggml.model";
/// Name of the pre-tokenizer.
pub const PRE: &str = "tokenizer.ggml.pre";
/// Texts of the tokens.
pub const TOKENS: &str = "tokenizer.ggml.tokens";
/// Scores of the tokens.
pub const SCORES: &str = "tokenizer.ggml.scores";
/// Types of the tokens.
pub const TOKEN_TYPE: &str = "tokenizer.ggml.token_type";
/// Merges, first to last.
pub const MERGES: &str = "tokenizer.ggml.merges";
/// True if a text starts with the BOS token.
pub const ADD_BOS: &str = "tokenizer.ggml.add_bos_token";
/// True if a space is added before a text.
pub const ADD_SPACE_PREFIX: &str = "tokenizer.ggml.add_space_prefix";
/// Number of sentence types (BERT).
pub const TOKEN_TYPE_COUNT: &str = "tokenizer.ggml.token_type_count";
/// True if runs of spaces are collapsed.
pub const REMOVE_EXTRA_WHITESPACES: &str = "tokenizer.ggml.remove_extra_whitespaces";
/// SentencePiece's compiled table of replacements.
pub const PRECOMPILED_CHARSMAP: &str = "tokenizer.ggml.precompiled_charsmap";
/// Token that begins a text.
pub const BOS_ID: &str = "tokenizer.ggml.bos_token_id";
/// Token that ends a text.
pub const EOS_ID: &str = "tokenizer.ggml.eos_token_id";
/// Unknown token, for text that no other token can spell.
pub const UNK_ID: &str = "tokenizer.ggml.unknown_token_id";
/// Token between two texts. The format itself misspells the key.
pub const SEP_ID: &str = "tokenizer.ggml.seperator_token_id";
/// Token that fills a batch.
pub const PAD_ID: &str = "tokenizer.ggml.padding_token_id";
/// Mask token, which represents a token to predict.
pub const MASK_ID: &str = "tokenizer.ggml.mask_token_id";
/// Token that ends a turn.
pub const EOT_ID: &str = "tokenizer.ggml.eot_token_id";
/// Token that ends a message.
pub const EOM_ID: &str = "tokenizer.ggml.eom_token_id";
/// Token that represents the meaning of a text (BERT).
pub const CLS_ID: &str = "tokenizer.ggml.cls_token_id";
/// Token before the text that precedes a gap.
pub const FIM_PRE_ID: &str = "tokenizer.ggml.fim_pre_token_id";
/// Token before the text that follows a gap.
pub const FIM_SUF_ID: &str = "tokenizer.ggml.fim_suf_token_id";
/// Token before the text that fills a gap.
pub const FIM_MID_ID: &str = "tokenizer.ggml.fim_mid_token_id";
/// Padding token for fill-in-the-middle.
pub const FIM_PAD_ID: &str = "tokenizer.ggml.fim_pad_token_id";
/// Token before the name of a repository.
pub const FIM_REP_ID: &str = "tokenizer.ggml.fim_rep_token_id";
/// Token between files of a repository.
pub const FIM_SEP_ID: &str = "tokenizer.ggml.fim_sep_token_id";
/// Tokens that are never generated.
pub const SUPPRESS_TOKENS: &str = "tokenizer.ggml.suppress_tokens";
/// True if a text ends with the EOS token.
pub const ADD_EOS: &str = "tokenizer.ggml.add_eos_token";
/// True if a separator is added between two texts.
pub const ADD_SEP: &str = "tokenizer.ggml.add_sep_token";
/// Contents of tokenizer.json.
pub const HF_JSON: &str = "tokenizer.huggingface.json";
/// Contents of RWKV's world vocabulary file.
pub const RWKV_WORLD: &str = "tokenizer.rwkv.world";
/// The default chat template.
pub const CHAT_TEMPLATE: &str = "tokenizer.chat_template";
/// Names of further chat templates.
pub const CHAT_TEMPLATES: &str = "tokenizer.chat_templates";
/// The value of [`MODEL`] for WordPiece.
pub const WORDPIECE: &str = "bert";
/// True if text is lowercased.
pub const LOWERCASE: &str = "tokenizer.ggml.normalizer.lowercase";
/// True if accents are removed.
pub const STRIP_ACCENTS: &str = "tokenizer.ggml.normalizer.strip_accents";

/// Names of special tokens in configs of Hugging Face, with the keys of their ids, in the order of transformers.
pub const SPECIAL_TOKENS: [(&str, &str); 7] = [
    ("bos_token", BOS_ID),
    ("eos_token", EOS_ID),
    ("unk_token", UNK_ID),
    ("sep_token", SEP_ID),
    ("pad_token", PAD_ID),
    ("cls_token", CLS_ID),
    ("mask_token", MASK_ID),
];

/// Key of the id of a special token (`bos`, `eos`, `padding`, ...).
pub fn special_id(token: &str) -> String {
    format!("tokenizer.ggml.{token}_token_id")
}

/// True for the key of the id of a special token.
pub fn is_special_id(key: &str) -> bool {
    key.starts_with("tokenizer.ggml.") && key.ends_with("_token_id")
}
