//! Every way in which a file from before GGUF can be wrong.

use std::io;

/// Error in a file from before GGUF. Files are named; the caller that opened the first one adds its path.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LegacyError {
    /// The system refused.
    #[error("`{file}`: cannot open: {error}")]
    Io {
        /// The file.
        file: String,
        /// Error of the system.
        error: io::Error,
    },
    /// Magic other than ggml, ggmf and ggjt.
    #[error("`{file}`: expected the magic ggml, ggmf or ggjt, found {found:?}")]
    Magic {
        /// The file.
        file: String,
        /// The first four bytes.
        found: [u8; 4],
    },
    /// A file of another program or for another purpose, by its magic and version.
    #[error("`{file}`: {item} is not supported")]
    Foreign {
        /// The file.
        file: String,
        /// Recognized format.
        item: &'static str,
        /// Suggested remedy.
        advice: &'static str,
    },
    /// Undefined version of the container.
    #[error("`{file}`: unknown {container} version {version} (expected at most {max})")]
    Version {
        /// The file.
        file: String,
        /// The container.
        container: &'static str,
        /// The version.
        version: u32,
        /// The last that there is.
        max: u32,
    },
    /// The file ends too early.
    #[error(
        "`{file}`: unexpected end of file in {item}: expected {needed} bytes at offset {offset}, found {left}"
    )]
    Truncated {
        /// The file.
        file: String,
        /// Item being read.
        item: &'static str,
        /// Start of the item.
        offset: u64,
        /// Bytes that it needs.
        needed: u64,
        /// Bytes up to the end of the file.
        left: u64,
    },
    /// A number of the header that no LLaMA model has.
    #[error("`{file}`: not a LLaMA model: {item}: expected {expected}, found {found}")]
    Header {
        /// The file.
        file: String,
        /// Meaning of the number.
        item: &'static str,
        /// The number.
        found: u64,
        /// Expected value.
        expected: String,
    },
    /// A number of a tensor's header that cannot be.
    #[error("`{file}`: tensor {index}: {item}: expected {expected}, found {found}")]
    TensorHeader {
        /// The file.
        file: String,
        /// Index of the tensor in the file.
        index: u64,
        /// Meaning of the number.
        item: &'static str,
        /// The number.
        found: u64,
        /// Expected value.
        expected: String,
    },
    /// A tensor's name is not valid UTF-8.
    #[error("`{file}`: tensor {index}: the name is not valid UTF-8")]
    Name {
        /// The file.
        file: String,
        /// Index of the tensor in the file.
        index: u64,
    },
    /// Two tensors of one name.
    #[error("`{file}`: duplicate tensor `{tensor}`")]
    Duplicate {
        /// The file.
        file: String,
        /// The name.
        tensor: String,
    },
    /// A type that this version of the container does not have.
    #[error("`{file}`: tensor `{tensor}`: unknown {container} type {id}")]
    Type {
        /// The file.
        file: String,
        /// The tensor.
        tensor: String,
        /// The id of the type.
        id: u32,
        /// The container with its version.
        container: String,
    },
    /// A row that is not whole blocks.
    #[error(
        "`{file}`: tensor `{tensor}`: row length {row_elems} is not a multiple of the {type_name} block size \
            {block_elems}"
    )]
    RowLength {
        /// The file.
        file: String,
        /// The tensor.
        tensor: String,
        /// Elements of a row.
        row_elems: u64,
        /// Name of the type.
        type_name: &'static str,
        /// Elements of a block.
        block_elems: u64,
    },
    /// The parts of a model do not fit together.
    #[error("`{file}`: tensor `{tensor}` differs from the first part: {item}")]
    PartsDiffer {
        /// The part.
        file: String,
        /// The tensor.
        tensor: String,
        /// In what.
        item: &'static str,
    },
    /// A part has another number of tensors, or another header.
    #[error("`{file}`: {item} differ from the first part")]
    PartHeader {
        /// The part.
        file: String,
        /// Differing property.
        item: &'static str,
    },
    /// The size of the embedding does not say how many parts there are.
    #[error("`{file}`: {n_embd} is not a multiple of the {found} columns of `tok_embeddings.weight`")]
    PartCount {
        /// The file.
        file: String,
        /// Embedding length of the model.
        n_embd: u64,
        /// Columns of the embedding in this file.
        found: u64,
    },
}

impl LegacyError {
    /// Suggested remedy.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            LegacyError::Foreign { advice, .. } => Some(advice),
            LegacyError::Header { .. } => Some(
                "the magic `ggml` is also that of GPT-2, GPT-J, GPT-NeoX, MPT, StarCoder and Whisper files: \
                    convert the original checkpoint",
            ),
            LegacyError::Truncated { .. } => Some("the file may be truncated; download it again"),
            LegacyError::Io { .. } => Some(
                "models above 7B have several parts, `x.bin`, `x.bin.1`, ...; put all parts into the folder",
            ),
            _ => None,
        }
    }
}
