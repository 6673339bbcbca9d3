//! Adapters with another vocabulary than the base model's: full embeddings and tokenizer files.
//!
//! Source: `resize_token_embeddings` of transformers 5.24; `get_peft_model_state_dict` in
//! `utils/save_and_load.py` of peft 0.21.2, which saves both full embeddings if the vocabulary size differs.

use std::collections::BTreeSet;

use gguf_checkpoint::{Checkpoint, Tensor};
use serde_json::Value as Json;

use super::{MergeError, modules::Whole};

pub(super) const OUTPUT: &str = "lm_head.weight";

/// Objects of a config that contain a vocabulary size.
const CONFIGS: &[&str] =
    &["", "/text_config", "/llm_config", "/language_config", "/thinker_config/text_config"];

/// Files of which every tokenizer has at least one.
const VOCABULARIES: &[&str] = &[
    "tokenizer.json",
    "tokenizer.model",
    "vocab.json",
    "vocab.txt",
    "tekken.json",
    "spiece.model",
    "tiktoken.model",
];

pub(super) fn is_embedding(name: &str) -> bool {
    name.ends_with("embed_tokens.weight") || name.ends_with("wte.weight")
}

/// True if a full tensor is an embedding or output matrix that only differs from the base model's in its
/// vocabulary size.
pub(super) fn is_resized(tensor: &Tensor, target: &Tensor) -> bool {
    let holds_tokens = is_embedding(&target.name) || target.name.ends_with(OUTPUT);
    holds_tokens
        && tensor.shape.len() == 2
        && target.shape.len() == 2
        && tensor.row_elems() == target.row_elems()
        && tensor.n_rows() != target.n_rows()
}

#[derive(Debug, Default)]
pub(super) struct Vocabulary {
    pub resized: BTreeSet<u64>,
}

impl Vocabulary {
    /// Checks that all embeddings and output matrices of `tensors` have the same number of tokens, and writes
    /// it to the config.
    ///
    /// # Errors
    /// [`MergeError::Vocabulary`] for an output matrix of another size than the embedding.
    pub(super) fn write_size(&self, tensors: &[Tensor], config: &mut Json) -> Result<(), MergeError> {
        let Some(embedding) = tensors.iter().find(|tensor| is_embedding(&tensor.name)) else { return Ok(()) };
        if self.resized.is_empty() {
            return Ok(());
        }
        let output = tensors.iter().find(|tensor| tensor.name.ends_with(OUTPUT));
        if let Some(output) = output.filter(|output| output.n_rows() != embedding.n_rows()) {
            return Err(MergeError::Vocabulary {
                tensor: embedding.name.clone(),
                found: embedding.n_rows(),
                target: output.name.clone(),
                expected: output.n_rows(),
            });
        }
        for place in CONFIGS {
            let size = config.pointer_mut(place).and_then(|object| object.get_mut("vocab_size"));
            if let Some(size) =
                size.filter(|size| size.as_u64().is_some_and(|size| self.resized.contains(&size)))
            {
                *size = embedding.n_rows().into();
            }
        }
        Ok(())
    }
}

/// Replaces the base model's tokenizer files with those of an adapter, like `tokenizer.save_pretrained`. If
/// the adapter only has a chat template, the base model's tokenizer stays.
pub(super) fn take_files(files: &mut Vec<(String, Vec<u8>)>, own: Vec<(String, Vec<u8>)>) {
    let has_vocabulary = own.iter().any(|(name, _)| VOCABULARIES.contains(&name.as_str()));
    let is_new = |name: &str| own.iter().any(|(own, _)| own == name);
    let is_replaced = |name: &str| has_vocabulary && gguf_checkpoint::is_tokenizer_file(name) || is_new(name);
    files.retain(|(name, _)| !is_replaced(name));
    files.extend(own);
    files.sort();
}

/// Full tensors without an output matrix that only repeats the embedding: a base model with tied embeddings
/// stays tied.
pub(super) fn without_tied_copy<'a>(
    whole: Vec<Whole<'a>>,
    adapter: &Checkpoint,
    is_tied: bool,
) -> Vec<Whole<'a>> {
    let bytes_of = |tensor: &Tensor| {
        let tensor = adapter.tensor(&tensor.name)?;
        Some((tensor.dtype, adapter.view(tensor).ok()?.bytes))
    };
    let embedding = whole.iter().find(|(module, last, _)| is_embedding(&format!("{module}.{last}")));
    let embedding = embedding.filter(|_| is_tied).and_then(|(_, _, tensor)| bytes_of(tensor));
    let is_copy = |(module, last, tensor): &Whole<'a>| {
        embedding.is_some() && format!("{module}.{last}") == OUTPUT && bytes_of(tensor) == embedding
    };
    let copies: Vec<bool> = whole.iter().map(is_copy).collect();
    whole.into_iter().zip(copies).filter_map(|(whole, is_copy)| (!is_copy).then_some(whole)).collect()
}
