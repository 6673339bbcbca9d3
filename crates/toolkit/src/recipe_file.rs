//! Recipe files: every choice of a run as JSON, so that it can be repeated.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use gguf_conversion::{
    PlannedFile,
    imatrix::MissingPolicy,
    recipes::{Recipe, TensorFacts},
};
use gguf_types::{DType, layer_and_part};
use serde::{Deserialize, Serialize};

use crate::{error::Error, text::pretty_json, text_file};

/// Value of `format`.
const FORMAT: &str = "gguf-tools recipe";
/// The version that is written, and the only one that is read.
const VERSION: u32 = 1;

/// Everything that determines the bytes of an output, except the input and the files named here.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecipeFile {
    /// Distinguishes recipe files from other JSON.
    pub format: String,
    /// The version of this format.
    pub version: u32,
    /// The importance matrix and the tensors that it is used for.
    #[serde(default)]
    pub imatrix: Option<ImatrixUse>,
    /// Treatment of tensors without importance data.
    #[serde(default, with = "crate::by_name::single")]
    pub missing_imatrix: MissingPolicy,
    /// `KEY=TYPE:VALUE`.
    #[serde(default)]
    pub override_kv: Vec<String>,
    /// Layers to remove, counted from 0.
    #[serde(default)]
    pub prune_layers: BTreeSet<u32>,
    /// Write as many shards as the input has.
    #[serde(default)]
    pub keep_split: bool,
    /// Limit of a shard in bytes of tensor data.
    #[serde(default)]
    pub split_max_size: Option<u64>,
    /// Limit of a shard in tensors.
    #[serde(default)]
    pub split_max_tensors: Option<u64>,
    /// True if quantized weights may be quantized again.
    #[serde(default)]
    pub allow_requantize: bool,
    /// True if NaNs and infinities are converted.
    #[serde(default)]
    pub allow_nonfinite: bool,
    /// The type that weights are rounded to first.
    #[serde(default, with = "crate::by_name::optional")]
    pub via: Option<DType>,
    /// Number of layers of the model that the types were chosen for. A model with another number takes the types of each
    /// layer from the layer at the same relative depth.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layers: Option<u32>,
    /// The outputs.
    pub outputs: Vec<OutputRecipe>,
}

/// Source of importance data.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImatrixUse {
    /// The path as it was given.
    pub file: String,
    /// Use the matrix only for tensors whose name contains one of these, if any.
    #[serde(default)]
    pub include_weights: Vec<String>,
    /// Ignore the matrix for tensors whose name contains one of these.
    #[serde(default)]
    pub exclude_weights: Vec<String>,
}

/// One file type and the dtype of every tensor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutputRecipe {
    /// The file type's name.
    #[serde(rename = "type")]
    pub file_type: String,
    /// Dtypes by the tensors' names in the input, or by patterns of names.
    #[serde(with = "crate::by_name::map")]
    pub dtypes: BTreeMap<String, DType>,
}

impl RecipeFile {
    /// Reads the file at `path`.
    ///
    /// # Errors
    /// A file that cannot be read or is not a recipe file of this version.
    pub fn open(path: &Path) -> Result<RecipeFile, Error> {
        let text = text_file::options(path)?;
        RecipeFile::parse(&text).map_err(|problem| Error::at(path, problem))
    }

    /// Reads the text of a recipe file.
    ///
    /// # Errors
    /// Invalid contents, with their line.
    pub fn parse(text: &str) -> Result<RecipeFile, String> {
        let file: RecipeFile = serde_json::from_str(text).map_err(|error| problem_of(&error))?;
        if file.format != FORMAT || file.version != VERSION {
            let (format, version) = (&file.format, file.version);
            return Err(format!("expected `{FORMAT}` version {VERSION}, found `{format}` version {version}"));
        }
        for output in &file.outputs {
            if let Err(error) = Recipe::from_name(&output.file_type) {
                return Err(at_line(text, &output.file_type, error));
            }
        }
        Ok(file)
    }

    /// Dtypes of an output for a model with these tensors: as they are stated, or by relative depth if the model has another
    /// number of layers. A type that does not fit the rows of a tensor is left to the file type.
    pub fn dtypes(&self, output: &OutputRecipe, tensors: &[TensorFacts<'_>]) -> BTreeMap<String, DType> {
        let (Some(stated), Some(layers)) = (self.layers, self.other_layers(tensors)) else {
            return output.dtypes.clone();
        };
        let is_pattern = |key: &str| key.contains(|c| "*+?()[]{}|^$\\".contains(c));
        let patterns = output.dtypes.iter().filter(|(key, _)| is_pattern(key));
        let mut dtypes: BTreeMap<String, DType> =
            patterns.map(|(key, dtype)| (key.clone(), *dtype)).collect();
        for tensor in tensors {
            let of = match layer_and_part(tensor.name) {
                Some((layer, rest)) => format!("blk.{}.{rest}", same_depth(layer, layers, stated)),
                None => tensor.name.to_owned(),
            };
            if let Some(dtype) = output.dtypes.get(&of)
                && tensor.shape.row_elems().is_multiple_of(dtype.block_elems())
            {
                dtypes.insert(tensor.name.to_owned(), *dtype);
            }
        }
        dtypes
    }

    /// Number of layers of a model, if the recipe states another one.
    pub fn other_layers(&self, tensors: &[TensorFacts<'_>]) -> Option<u32> {
        let stated = self.layers?;
        n_layers(tensors.iter().map(|tensor| tensor.name)).filter(|layers| *layers != stated)
    }

    /// A recipe of a single output: a file type and a dtype for each tensor.
    pub fn of_output(output: OutputRecipe) -> RecipeFile {
        RecipeFile {
            format: FORMAT.to_owned(),
            version: VERSION,
            layers: n_layers(output.dtypes.keys().map(String::as_str)),
            outputs: vec![output],
            ..RecipeFile::default()
        }
    }

    /// Text of the file.
    ///
    /// # Errors
    /// None are known.
    pub fn text(&self) -> Result<String, Error> {
        pretty_json(self)
    }

    /// The same recipe with the types of `files`, which are made of `tensors`.
    pub fn with_choices(
        mut self,
        tensors: &[TensorFacts<'_>],
        files: &[(PathBuf, &PlannedFile)],
    ) -> RecipeFile {
        self.format = FORMAT.to_owned();
        self.version = VERSION;
        self.layers = n_layers(tensors.iter().map(|tensor| tensor.name));
        self.outputs = Vec::new();
        for (_, file) in files {
            let name = file.recipe.name;
            // Shards of one output follow each other.
            if file.shard.is_none_or(|(no, _)| no == 1) {
                self.outputs.push(OutputRecipe { file_type: name.to_owned(), dtypes: BTreeMap::new() });
            }
            let chosen =
                file.choices.iter().map(|choice| (tensors[choice.tensor].name.to_owned(), choice.dtype));
            if let Some(output) = self.outputs.last_mut() {
                output.dtypes.extend(chosen);
            }
        }
        self
    }

    /// Writes the file atomically. The caller has checked that an existing file may be replaced.
    ///
    /// # Errors
    /// The error of the system.
    pub fn save(&self, path: &Path) -> Result<(), Error> {
        gguf_container::Output::write_whole(path, self.text()?.as_bytes(), true).map_err(Error::new)
    }
}

/// The problem of a JSON text, with its line first.
fn problem_of(error: &serde_json::Error) -> String {
    let (line, text) = (error.line(), error.to_string());
    let place = format!(" at line {line} column {}", error.column());
    format!("not a recipe file: line {line}: {}", text.strip_suffix(&place).unwrap_or(&text))
}

/// A problem with a value or key of a recipe file, with the line that it is on.
pub fn at_line(text: &str, value: &str, problem: impl std::fmt::Display) -> String {
    let quoted = serde_json::Value::from(value).to_string();
    match text.lines().position(|line| line.contains(&quoted)) {
        Some(index) => format!("line {}: {problem}", index + 1),
        None => problem.to_string(),
    }
}

/// Number of layers that names mention; none without layers.
fn n_layers<'a>(names: impl Iterator<Item = &'a str>) -> Option<u32> {
    names.filter_map(layer_and_part).map(|(layer, _)| layer).max()?.checked_add(1)
}

/// The layer of `stated` at the relative depth of `layer` of `layers`: first and last correspond.
fn same_depth(layer: u32, layers: u32, stated: u32) -> u32 {
    let last = u128::from(layers.saturating_sub(1)).max(1);
    let stated_last = stated.saturating_sub(1);
    // Rounded to the nearest.
    let depth = (2 * u128::from(layer) * u128::from(stated_last) + last) / (2 * last);
    u32::try_from(depth).unwrap_or(u32::MAX).min(stated_last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_and_last_layers_correspond() {
        let depths =
            |layers, stated| (0..layers).map(|layer| same_depth(layer, layers, stated)).collect::<Vec<_>>();
        assert_eq!(depths(4, 8), [0, 2, 5, 7]);
        assert_eq!(depths(5, 3), [0, 1, 1, 2, 2]);
        assert_eq!(depths(1, 8), [0]);
        assert_eq!(depths(3, 1), [0, 0, 0]);
        assert_eq!(same_depth(u32::MAX - 1, u32::MAX, u32::MAX), u32::MAX - 1);
    }

    #[test]
    fn problems_name_their_line() {
        let problem =
            RecipeFile::parse("{\n  \"format\": \"gguf-tools recipe\",\n  \"x\": 1\n}").unwrap_err();
        assert!(problem.starts_with("not a recipe file: line 3: unknown field `x`"), "{problem}");
        let text = "{\"format\": \"gguf-tools recipe\", \"version\": 1,\n\"outputs\": [{\"type\": \"q9\", \"dtypes\": {}}]}";
        let problem = RecipeFile::parse(text).unwrap_err();
        assert!(problem.starts_with("line 2: ") && problem.contains("q9"), "{problem}");
    }
}
