//! The files of a checkpoint that describe its tokenizer.

use serde_json::Value as Json;

/// Configs and small files of a checkpoint, provided by the caller.
#[derive(Debug, Clone, Copy)]
pub struct TokenizerFiles<'a> {
    /// `config.json`.
    pub config: &'a Json,
    /// `generation_config.json`, if there is one.
    pub generation_config: Option<&'a Json>,
    /// Small files of the folder by name (`tokenizer.json`, `tokenizer.model`, `tokenizer_config.json`,
    /// `special_tokens_map.json`, `added_tokens.json`, `chat_template.jinja`, `vocab.json`, `merges.txt`,
    /// ...).
    pub files: &'a [(String, &'a [u8])],
}

impl<'a> TokenizerFiles<'a> {
    /// The bytes of a small file.
    pub fn file(&self, name: &str) -> Option<&'a [u8]> {
        self.files.iter().find(|(other, _)| other == name).map(|(_, bytes)| *bytes)
    }
}
