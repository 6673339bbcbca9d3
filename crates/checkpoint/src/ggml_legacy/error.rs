use std::io;

use gguf_types::{Fields as _, Problem, Words};

/// Error in a file from before GGUF. Files are named; the caller that opened the first one adds its path.
#[derive(Debug, thiserror::Error, gguf_types::Fields)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages explain the fields")]
pub enum LegacyError {
    #[error("`{file}`: cannot open: {error}")]
    Io { file: String, error: io::Error },
    /// Magic other than ggml, ggmf and ggjt.
    #[error("`{file}`: expected the magic ggml, ggmf or ggjt, found {found:?}")]
    #[fact(found = found.escape_ascii())]
    Magic { file: String, found: [u8; 4] },
    /// A file of another program or purpose, by magic and version.
    #[error("`{file}`: {item} is not supported")]
    Foreign { file: String, item: &'static str, advice: &'static str },
    #[error("`{file}`: unknown {container} version {version} (expected at most {max})")]
    Version { file: String, container: &'static str, version: u32, max: u32 },
    #[error(
        "`{file}`: unexpected end of file in {item}: expected {needed} bytes at offset {offset}, found {left}"
    )]
    Truncated {
        file: String,
        item: &'static str,
        offset: u64,
        needed: u64,
        /// Bytes up to the end of the file.
        left: u64,
    },
    /// A number in the header is impossible for a LLaMA model.
    #[error("`{file}`: not a LLaMA model: {item}: expected {expected}, found {found}")]
    Header { file: String, item: &'static str, found: u64, expected: String },
    /// A number in a tensor's header is impossible.
    #[error("`{file}`: tensor {index}: {item}: expected {expected}, found {found}")]
    TensorHeader {
        file: String,
        /// Index of the tensor in the file.
        index: u64,
        item: &'static str,
        found: u64,
        expected: String,
    },
    /// A tensor's name is not valid UTF-8.
    #[error("`{file}`: tensor {index}: the name is not valid UTF-8")]
    Name {
        file: String,
        /// Index of the tensor in the file.
        index: u64,
    },
    #[error("`{file}`: duplicate tensor `{tensor}`")]
    Duplicate { file: String, tensor: String },
    /// A type that this container version does not have.
    #[error("`{file}`: tensor `{tensor}`: unknown {container} type {id}")]
    Type { file: String, tensor: String, id: u32, container: String },
    #[error(
        "`{file}`: tensor `{tensor}`: row length {row_elems} is not a multiple of the {type_name} block size \
            {block_elems}"
    )]
    RowLength { file: String, tensor: String, row_elems: u64, type_name: &'static str, block_elems: u64 },
    /// The parts of a model do not fit together.
    #[error("`{file}`: tensor `{tensor}` differs from the first part: {item}")]
    PartsDiffer { file: String, tensor: String, item: &'static str },
    /// A part has another number of tensors, or another header.
    #[error("`{file}`: {item} differ from the first part")]
    PartHeader { file: String, item: &'static str },
    /// The embedding's size does not give the number of parts.
    #[error("`{file}`: {n_embd} is not a multiple of the {found} columns of `tok_embeddings.weight`")]
    PartCount {
        file: String,
        n_embd: u64,
        /// Columns of the embedding in this file.
        found: u64,
    },
}

impl Problem for LegacyError {
    fn hint(&self) -> Option<Words> {
        let hint = match self {
            LegacyError::Foreign { advice, .. } => advice,
            LegacyError::Header { .. } => {
                "the magic `ggml` is also that of GPT-2, GPT-J, GPT-NeoX, MPT, StarCoder and Whisper files: \
                    convert the original checkpoint"
            }
            LegacyError::Truncated { .. } => "the file may be truncated; download it again",
            LegacyError::Io { .. } => {
                "models above 7B have several parts, `x.bin`, `x.bin.1`, ...; put all parts into the folder"
            }
            _ => return self.inner()?.hint(),
        };
        Some(hint.into())
    }
}
