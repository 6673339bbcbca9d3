//! Input of an architecture: a checkpoint without its weights.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use gguf_tokenizer::TokenizerFiles;
use gguf_types::{Shape, StoredBlocks};
use serde_json::Value as Json;

/// A checkpoint as an architecture sees it. The caller that opened the files fills this in.
#[derive(Debug, Default)]
pub struct Input<'a> {
    /// `config.json`.
    pub config: Json,
    /// `generation_config.json`, if there is one.
    pub generation_config: Option<Json>,
    /// Small files of the folder by name (`tokenizer.json`, `tokenizer.model`,
    /// `tokenizer_config.json`, `special_tokens_map.json`, `added_tokens.json`,
    /// `chat_template.jinja`, `vocab.json`, `merges.txt`, ...), unchanged.
    pub files: Vec<(String, &'a [u8])>,
    /// The model card's front matter as JSON, if there is one.
    pub card: Option<Json>,
    /// Name of the folder, from which a model name is guessed last of all.
    pub folder_name: String,
    /// Every tensor of the checkpoint: name and shape, in the order of the reference (by file
    /// name, then by position in the file's header).
    pub tensors: Vec<SourceTensor>,
    /// True if quantized weights appear as decoded tensors, so that the quantization config in `config.json`
    /// no longer applies.
    pub decoded: bool,
    /// Tensors that stay in the blocks of the checkpoint, by name.
    pub stored_blocks: HashMap<String, StoredBlocks>,
    /// Compares the values of two tensors; `None` if the weights are not available, which means that no two
    /// are equal.
    pub same: Option<SameValues<'a>>,
    /// The values of tensors of integers, which are not weights: tables of ids.
    pub integers: Option<Integers<'a>>,
    /// Values of small tensors, if they are available.
    pub values: Option<TensorValues<'a>>,
    /// Rows of zeros, if the weights are available.
    pub zero_rows: Option<ZeroRows<'a>>,
}

/// Finds rows of zeros; passed by the caller that opened the files. Used only if the reference writes them as keys.
#[derive(Clone)]
pub struct ZeroRows<'a>(Arc<FindZeroRows<'a>>);

/// Finds the rows of zeros of a tensor, starting at a row.
type FindZeroRows<'a> = dyn Fn(&str, u64) -> Option<Vec<u64>> + 'a;

impl<'a> ZeroRows<'a> {
    /// Wraps `find`.
    pub fn new(find: impl Fn(&str, u64) -> Option<Vec<u64>> + 'a) -> ZeroRows<'a> {
        ZeroRows(Arc::new(find))
    }

    /// Indices of the rows of tensor `name` from `first` whose elements are all zero; `None` for a tensor that is missing or cannot
    /// be read.
    pub fn find(&self, name: &str, first: u64) -> Option<Vec<u64>> {
        (self.0)(name, first)
    }
}

impl fmt::Debug for ZeroRows<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ZeroRows")
    }
}

/// Elements of small tensors, by their names in the checkpoint, from the caller that opened the files.
#[derive(Clone)]
pub struct Elements<'a, T>(Arc<ReadElements<'a, T>>);

/// Reads a tensor by its name.
type ReadElements<'a, T> = dyn Fn(&str) -> Option<Vec<T>> + 'a;

/// Tensors of integers; `None` if a tensor contains no integers.
pub type Integers<'a> = Elements<'a, i64>;

/// Values of weights. Read only if the reference makes keys from values.
pub type TensorValues<'a> = Elements<'a, f32>;

impl<'a, T> Elements<'a, T> {
    /// Reads with `read`.
    pub fn new(read: impl Fn(&str) -> Option<Vec<T>> + 'a) -> Elements<'a, T> {
        Elements(Arc::new(read))
    }

    /// The elements of tensor `name`; `None` for one that is not there or cannot be read.
    pub fn read(&self, name: &str) -> Option<Vec<T>> {
        (self.0)(name)
    }
}

impl<T> fmt::Debug for Elements<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Elements")
    }
}

/// Asks the caller that opened the files whether two tensors have the same values. Used only if the reference
/// drops an output that is equal to the embedding.
#[derive(Clone)]
pub struct SameValues<'a>(Arc<Same<'a>>, Option<Arc<Zero<'a>>>);

/// Asks whether all values of a tensor are zero.
type Zero<'a> = dyn Fn(&str) -> bool + 'a;

/// Compares two tensors by their names.
type Same<'a> = dyn Fn(&str, &str) -> bool + 'a;

impl<'a> SameValues<'a> {
    /// Answers with `same`.
    pub fn new(same: impl Fn(&str, &str) -> bool + 'a) -> SameValues<'a> {
        SameValues(Arc::new(same), None)
    }

    /// Answers with `zero` whether all values of a tensor are zero.
    #[must_use]
    pub fn with_zeros(self, zero: impl Fn(&str) -> bool + 'a) -> SameValues<'a> {
        SameValues(self.0, Some(Arc::new(zero)))
    }

    /// True if all values of the tensor are zero, or if that is not known.
    pub fn are_zero(&self, name: &str) -> bool {
        self.1.as_ref().is_none_or(|zero| zero(name))
    }

    /// True if tensors `a` and `b` have the same values.
    pub fn ask(&self, a: &str, b: &str) -> bool {
        (self.0)(a, b)
    }
}

impl fmt::Debug for SameValues<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SameValues")
    }
}

/// A tensor of the checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceTensor {
    /// Its name in the checkpoint.
    pub name: String,
    /// Its shape, row length first. Where the checkpoint has more dimensions than ggml, the outer ones are one.
    pub shape: Shape,
    /// For more dimensions than ggml supports: the innermost ones that the last dimension of its shape is
    /// the product of. Unless the tensor is left out, its row must know how to cut it.
    pub folded: Option<u64>,
}

impl Input<'_> {
    /// The bytes of a small file.
    pub fn file(&self, name: &str) -> Option<&[u8]> {
        self.tokenizer_files().file(name)
    }

    /// The part that describes the tokenizer.
    pub fn tokenizer_files(&self) -> TokenizerFiles<'_> {
        let Input { config, generation_config, files, .. } = self;
        TokenizerFiles { config, generation_config: generation_config.as_ref(), files }
    }
}

/// Data of the target model of a draft: sizes and tokenizer.
#[derive(Debug, Clone, Default)]
pub struct Target {
    /// `config.json`.
    pub config: Json,
    /// `generation_config.json`, if there is one.
    pub generation_config: Option<Json>,
    /// Small files of its folder by name.
    pub files: Vec<(String, Vec<u8>)>,
}
