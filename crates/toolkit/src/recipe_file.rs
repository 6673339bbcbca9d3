//! Recipe files: every choice of a run as JSON, so that it can be repeated.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use gguf_conversion::{PlannedFile, imatrix::MissingPolicy, recipes::TensorFacts};
use gguf_types::DType;
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
    /// Dtypes by the tensors' names in the input.
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
    /// Invalid contents.
    pub fn parse(text: &str) -> Result<RecipeFile, String> {
        let file: RecipeFile =
            serde_json::from_str(text).map_err(|error| format!("not a recipe file: {error}"))?;
        if file.format != FORMAT || file.version != VERSION {
            let (format, version) = (&file.format, file.version);
            return Err(format!("expected `{FORMAT}` version {VERSION}, found `{format}` version {version}"));
        }
        Ok(file)
    }

    /// A recipe of a single output: a file type and a dtype for each tensor.
    pub fn of_output(output: OutputRecipe) -> RecipeFile {
        RecipeFile {
            format: FORMAT.to_owned(),
            version: VERSION,
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
