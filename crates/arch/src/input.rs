//! What an architecture is given: a checkpoint without its weights.

use serde_json::Value as Json;
use tensor::Shape;

/// A checkpoint as an architecture sees it. Whoever opened the files fills this in.
#[derive(Debug, Default)]
pub struct Input<'a> {
    /// `config.json`.
    pub config: Json,
    /// `generation_config.json`, if there is one.
    pub generation_config: Option<Json>,
    /// Small files of the folder by name (`tokenizer.json`, `tokenizer.model`,
    /// `tokenizer_config.json`, `special_tokens_map.json`, `added_tokens.json`,
    /// `chat_template.jinja`, `vocab.json`, `merges.txt`, ...), whole.
    pub files: Vec<(String, &'a [u8])>,
    /// The model card's front matter as JSON, if there is one.
    pub card: Option<Json>,
    /// Name of the folder, from which a model name is guessed last of all.
    pub folder_name: String,
    /// Every tensor of the checkpoint: name and shape, in the order of the reference (by file
    /// name, then by position in the file's header).
    pub tensors: Vec<SourceTensor>,
}

/// A tensor of the checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceTensor {
    /// Its name in the checkpoint.
    pub name: String,
    /// Its shape, row length first.
    pub shape: Shape,
}

impl Input<'_> {
    /// The bytes of a small file.
    pub fn file(&self, name: &str) -> Option<&[u8]> {
        self.files.iter().find(|(have, _)| have == name).map(|(_, bytes)| *bytes)
    }
}
