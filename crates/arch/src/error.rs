//! Why a checkpoint has no layout.

use tensor::{Shape, ShapeError};

use crate::vocab::VocabError;

/// Why a checkpoint cannot be resolved.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArchError {
    /// No row of [`crate::ARCHES`] has the class that the config names.
    #[error("unknown architecture `{class}`; nearest known: {}", nearest.join(", "))]
    UnknownClass {
        /// The class as the config names it.
        class: String,
        /// Known classes with the most similar names, nearest first.
        nearest: Vec<&'static str>,
    },
    /// A file of the checkpoint lacks a key that is needed.
    #[error("{file}: missing key `{key}`")]
    MissingKey {
        /// The file.
        file: &'static str,
        /// The key; inner keys after a dot.
        key: String,
    },
    /// A key holds something of the wrong type or out of range.
    #[error("{file}: key `{key}` is {found}, expected {expected}")]
    BadKey {
        /// The file.
        file: &'static str,
        /// The key; inner keys after a dot.
        key: String,
        /// The value as JSON, shortened.
        found: String,
        /// What was expected.
        expected: &'static str,
    },
    /// Weights that some other program has quantized, by a method that is not supported.
    #[error("config.json: weights are quantized by `{method}`, which is not supported")]
    Prequantized {
        /// `quantization_config.quant_method`.
        method: String,
    },
    /// Tensors that the architecture needs are not in the checkpoint.
    #[error("{} missing tensor(s): {}", names.len(), list(names))]
    MissingTensors {
        /// Their names as the checkpoint would spell them.
        names: Vec<String>,
    },
    /// The checkpoint holds tensors that the architecture has no place for.
    #[error("{} tensor(s) without a place in this architecture: {}", names.len(), list(names))]
    UnusedTensors {
        /// Their names.
        names: Vec<String>,
    },
    /// Two tensors of the checkpoint would become the same output tensor.
    #[error("tensors `{first}` and `{second}` both become `{output}`")]
    SameOutput {
        /// The output tensor.
        output: String,
        /// The earlier source.
        first: String,
        /// The later source.
        second: String,
    },
    /// A tensor's shape contradicts the config.
    #[error("tensor `{name}`: shape {found}, expected {expected}")]
    TensorShape {
        /// Its name in the checkpoint.
        name: String,
        /// Its shape.
        found: Shape,
        /// What the config or the other tensors ask for.
        expected: String,
    },
    /// A shape that cannot be made.
    #[error("tensor `{name}`: {source}")]
    Shape {
        /// The output tensor.
        name: String,
        /// The reason.
        source: ShapeError,
    },
    /// The tokenizer files.
    #[error(transparent)]
    Vocab(#[from] VocabError),
}

impl ArchError {
    /// What a person can do about it, one line.
    pub fn hint(&self) -> Option<String> {
        match self {
            ArchError::MissingTensors { .. } => {
                Some("a shard may be missing, or `num_hidden_layers` in config.json too large".into())
            }
            ArchError::UnusedTensors { .. } => {
                Some("the checkpoint may be of another architecture than config.json states".into())
            }
            _ => None,
        }
    }
}

/// The first few names, and how many more there are.
fn list(names: &[String]) -> String {
    const SHOWN: usize = 8;
    let mut text = names.iter().take(SHOWN).map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    if names.len() > SHOWN {
        text.push_str(&format!(" and {} more", names.len() - SHOWN));
    }
    text
}
