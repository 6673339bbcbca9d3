//! Reasons why llama.cpp does not load a file.

use std::fmt;

use gguf_types::Shape;

/// The list of tokens.
pub const TOKENS: &str = "tokenizer.ggml.tokens";

/// A reason why llama.cpp does not load a file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// A key that it needs.
    MissingKey {
        /// The key.
        key: String,
    },
    /// A key of a type that it does not read.
    KeyType {
        /// The key.
        key: String,
        /// Name of the type that is read.
        expected: String,
        /// Name of the type that was found.
        found: String,
    },
    /// A list of another length than the layers need.
    KeyLength {
        /// The key.
        key: String,
        /// Elements that are expected.
        expected: u64,
        /// Elements that were found.
        found: u64,
    },
    /// Values that it refuses.
    KeyValues {
        /// The keys with their values.
        keys: Vec<String>,
    },
    /// A list of tokens that it refuses.
    Tokens {
        /// The problem.
        problem: String,
    },
    /// A tensor that it needs.
    MissingTensor {
        /// The name.
        name: String,
        /// Other layers that lack it too.
        n_more: usize,
    },
    /// A tensor of another shape than the keys give.
    TensorShape {
        /// The name.
        name: String,
        /// Dimensions, row length first.
        expected: Vec<u64>,
        /// The shape in the file.
        found: Shape,
        /// Other layers in which it is wrong too.
        n_more: usize,
    },
    /// A tensor that it does not create.
    ExtraTensor {
        /// The name.
        name: String,
        /// Other layers that have it too.
        n_more: usize,
    },
    /// A problem that the loader accepts and the graph does not: llama.cpp aborts after loading.
    Graph(Box<Refusal>),
}

impl Refusal {
    /// A name for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Refusal::MissingKey { .. } => "missing_key",
            Refusal::KeyType { .. } | Refusal::KeyLength { .. } | Refusal::KeyValues { .. } => "key",
            Refusal::Tokens { .. } => "tokenizer",
            Refusal::MissingTensor { .. } => "missing_tensor",
            Refusal::TensorShape { .. } => "tensor_shape",
            Refusal::ExtraTensor { .. } => "extra_tensor",
            Refusal::Graph(problem) => problem.code(),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let n_more = match self {
            Refusal::MissingKey { key } => {
                write!(f, "missing metadata key `{key}`")?;
                0
            }
            Refusal::KeyType { key, expected, found } => {
                write!(f, "metadata key `{key}`: expected type {expected}, found {found}")?;
                0
            }
            Refusal::KeyLength { key, expected, found } => {
                write!(f, "metadata key `{key}`: expected {expected} elements, found {found}")?;
                0
            }
            Refusal::KeyValues { keys } => {
                write!(f, "values not supported: {}", keys.join(", "))?;
                0
            }
            Refusal::Tokens { problem } => {
                write!(f, "`{TOKENS}`: {problem}")?;
                0
            }
            Refusal::MissingTensor { name, n_more } => {
                write!(f, "missing tensor `{name}`")?;
                *n_more
            }
            Refusal::TensorShape { name, expected, found, n_more } => {
                write!(f, "tensor `{name}`: expected shape {expected:?}, found {:?}", found.dims())?;
                *n_more
            }
            Refusal::ExtraTensor { name, n_more } => {
                write!(f, "extra tensor `{name}`")?;
                *n_more
            }
            Refusal::Graph(problem) => {
                write!(f, "the graph cannot be built: {problem}")?;
                0
            }
        };
        match n_more {
            0 => Ok(()),
            1 => write!(f, " (and in 1 more layer)"),
            n => write!(f, " (and in {n} more layers)"),
        }
    }
}
