//! Input and result of an export.

use gguf_container::{Metadata, Value};
use gguf_types::Shape;

use super::error::ExportError;
use crate::Families;
use crate::arch::Arch;
use crate::layout::{ElementMap, Matrix, RowMap};

/// Contents of a GGUF file without its weights.
#[derive(Debug, Clone)]
pub struct GgufInput<'a> {
    /// Its metadata.
    pub metadata: &'a Metadata,
    /// Its tensors: name and shape, in its order.
    pub tensors: Vec<(String, Shape)>,
    /// The values of `rope_freqs.weight`, if the file has it.
    pub rope_freqs: Option<Vec<f32>>,
    /// The values of `rope_factors_long.weight` and `rope_factors_short.weight`, if the file has them.
    pub rope_factors: Option<[Vec<f32>; 2]>,
    /// The type of the weights to write, as torch spells it: `float32`, `float16`, `bfloat16`.
    pub dtype: &'static str,
}

/// A checkpoint folder, all but its weights.
#[derive(Debug, Clone)]
pub struct ExportLayout {
    /// Files of the folder by name, in the order in which they are best written.
    pub files: Vec<(String, Vec<u8>)>,
    /// Its tensors.
    pub tensors: Vec<ExportTensor>,
    /// Things a person should know, each one line.
    pub notes: Vec<String>,
}

/// Origin of a checkpoint tensor.
#[derive(Debug, Clone, PartialEq)]
pub struct ExportTensor {
    /// Its name in the checkpoint.
    pub name: String,
    /// Its shape, row length first.
    pub shape: Shape,
    /// Places of its rows; together they cover all rows.
    pub parts: Vec<ExportPart>,
    /// Its values, if a key of the file contains them.
    pub values: Vec<f32>,
}

/// Rows of a checkpoint tensor that are in one GGUF tensor.
#[derive(Debug, Clone, PartialEq)]
pub struct ExportPart {
    /// The GGUF tensor.
    pub source: String,
    /// The first row of the GGUF tensor that belongs here (experts share one).
    pub first_row: u64,
    /// Rows of the GGUF tensor that belong here.
    pub n_rows: u64,
    /// Elements of such a row.
    pub row_elems: u64,
    /// The map from the checkpoint to the file; [`SourceRows::output_row`](crate::SourceRows::output_row) is its inverse. Where
    /// the rows of a vector move, they are its elements.
    pub rows: RowMap,
    /// Change of each element; [`ElementMap::undo`] is the inverse.
    pub element: ElementMap,
    /// The rows of the checkpoint tensor that were transposed, if its columns are the rows here.
    pub matrix: Option<Matrix>,
}

/// A checkpoint that has been found for a file, and the facts that the rest of an export needs.
pub(super) struct Checkpoint {
    /// config.json.
    pub config: serde_json::Value,
    /// Other files that say something of the model.
    pub files: Vec<(String, Vec<u8>)>,
    /// Its tensors.
    pub tensors: Vec<ExportTensor>,
    /// Things a person should know.
    pub notes: Vec<String>,
}

/// A file read as one of an architecture.
#[derive(Clone, Copy)]
pub(super) struct ArchFile<'a> {
    pub families: &'a Families,
    /// The architecture.
    pub arch: &'static Arch,
    /// The file.
    pub input: &'a GgufInput<'a>,
}

impl<'a> ArchFile<'a> {
    /// The full name of a key below the architecture's name.
    pub(super) fn key(&self, key: &str) -> String {
        format!("{}.{key}", self.arch.written())
    }

    /// True if a full name is below the architecture's name.
    pub(super) fn is_own(&self, key: &str) -> bool {
        key.strip_prefix(self.arch.written()).is_some_and(|rest| rest.starts_with('.'))
    }

    /// The value of a key below the architecture's name.
    pub(super) fn get(&self, key: &str) -> Option<&'a Value> {
        self.input.metadata.get(&self.key(key))
    }

    /// The count of a key below the architecture's name, if it is there.
    pub(super) fn count(&self, key: &str) -> Result<Option<u64>, ExportError> {
        Ok(self.input.metadata.count(&self.key(key))?)
    }

    /// The count of a key below the architecture's name that must be there.
    pub(super) fn need_count(&self, key: &str) -> Result<u64, ExportError> {
        self.count(key)?.ok_or_else(|| gguf_container::KeyError::missing(self.key(key)).into())
    }

    /// The number of a key below the architecture's name as a config has it, if it is there.
    pub(super) fn number(&self, key: &str) -> Result<Option<f64>, ExportError> {
        decimal(self.input.metadata, &self.key(key))
    }

    /// The shape of a tensor.
    pub(super) fn shape(&self, name: &str) -> Option<Shape> {
        self.input.tensors.iter().find(|(other, _)| other == name).map(|(_, shape)| *shape)
    }

    /// True if a tensor's name has this suffix.
    pub(super) fn has_tensor(&self, end: &str) -> bool {
        self.input.tensors.iter().any(|(name, _)| name.ends_with(end))
    }

    /// Rows of the embedding, which are the tokens that the model has room for.
    pub(super) fn embedding_rows(&self) -> Result<u64, ExportError> {
        let missing = || ExportError::MissingTensors { names: vec![self.arch.embedding.to_owned()] };
        Ok(self.shape(self.arch.embedding).ok_or_else(missing)?.n_rows())
    }
}

/// A number, if the key is there: for single precision the shortest decimal, as a config would have it (`1e-05`,
/// not `9.999999747378752e-06`).
pub(super) fn decimal(metadata: &Metadata, key: &str) -> Result<Option<f64>, ExportError> {
    let number = |value: &Value| match value {
        Value::F32(value) => value.to_string().parse().ok(),
        Value::F64(value) => Some(*value),
        other => other.as_u64().map(|count| count as f64),
    };
    Ok(metadata.read(key, "a number", number)?)
}

/// A list of texts, if the key is there.
pub(super) fn texts(metadata: &Metadata, key: &str) -> Result<Option<Vec<String>>, ExportError> {
    let all = |value: &Value| match value.as_array()? {
        gguf_container::Array::String(items) => {
            items.iter().map(|item| String::from_utf8(item.to_vec()).ok()).collect()
        }
        array if array.is_empty() => Some(Vec::new()),
        _ => None,
    };
    Ok(metadata.read(key, "a list of texts", all)?)
}

/// A text, if the key is there.
pub(super) fn text(metadata: &Metadata, key: &str) -> Result<Option<String>, ExportError> {
    Ok(metadata.text(key)?.map(str::to_owned))
}

/// True if a tensor is computed from a config, so no checkpoint has it.
pub(super) fn is_computed(name: &str) -> bool {
    matches!(name, "rope_freqs.weight" | "rope_factors_long.weight" | "rope_factors_short.weight")
}
