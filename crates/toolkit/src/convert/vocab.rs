//! Metadata and tokenizer of a checkpoint, without weights.

use std::path::PathBuf;

use gguf_checkpoint::Folder;
use gguf_conversion::{Error as EngineError, recipes::FileType as FileTypeId};
use serde::{Deserialize, Serialize};

use super::options::{ArchOptions, NamingOptions, PlainOptions, ReadingOptions, is_of_converter};
use crate::{
    error::Error,
    events::Events,
    failure::failure,
    file_type::FileType,
    hub::{self, HubOptions},
    layout_notes::Notes,
    output_files::{check_output, make_folder_of},
    text::human_bytes,
};

/// Conversion of metadata and tokenizer of a checkpoint, without weights.
///
/// # Examples
/// ```no_run
/// use gguf_toolkit::ConvertVocab;
///
/// # fn main() -> Result<(), gguf_toolkit::Error> {
/// let report = ConvertVocab::new("Llama-3.2-1B").run(&())?;
/// println!("{} tokens", report.tokens);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ConvertVocab {
    /// Checkpoint folder, or `hf://OWNER/MODEL[@REVISION]`. Weights are not needed.
    #[serde(with = "crate::path_json::one")]
    pub source: PathBuf,
    /// File type that the metadata state: F32, F16, BF16 or Q8_0. Default: that of the weights.
    pub file_type: Option<FileType>,
    /// Interpretation of the checkpoint's files.
    pub reading: ReadingOptions,
    /// Architecture. A custom one is not supported.
    pub arch: ArchOptions,
    /// Name and tokenizer.
    pub naming: NamingOptions,
    /// Write a big-endian file.
    pub big_endian: bool,
    /// File or folder to write. Default: the current folder, with a file name from the model.
    #[serde(with = "crate::path_json::optional")]
    pub out: Option<PathBuf>,
    /// Overwrite an existing file.
    pub force: bool,
    /// Access to the Hub.
    pub hub: HubOptions,
}

/// The planned or written file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct VocabReport {
    /// Path of the input.
    pub input: String,
    /// Path of the file.
    pub output: String,
    /// Architecture of the model.
    pub architecture: &'static str,
    /// Kind of the tokenizer, as `tokenizer.ggml.model` states it.
    pub tokenizer: String,
    /// Number of tokens.
    pub tokens: usize,
    /// Number of metadata keys.
    pub keys: usize,
    /// Length of the file in bytes.
    pub bytes: u64,
    /// True if the file was only planned.
    pub dry_run: bool,
    /// Notes and warnings.
    pub notes: Vec<String>,
}

impl VocabReport {
    /// A summary in one line.
    pub fn text(&self) -> String {
        let VocabReport { output, architecture, tokenizer, tokens, keys, bytes, .. } = self;
        format!("{output}: {architecture}, {tokens} tokens of kind {tokenizer}, {keys} keys, {bytes} bytes\n")
    }
}

impl ConvertVocab {
    /// Conversion of the metadata of the checkpoint at `source`.
    pub fn new(source: impl Into<PathBuf>) -> ConvertVocab {
        ConvertVocab { source: source.into(), ..ConvertVocab::default() }
    }

    /// Plans the file and writes nothing.
    ///
    /// # Errors
    /// Invalid options, or an input that cannot be read.
    pub fn plan(&self, events: &dyn Events) -> Result<VocabReport, Error> {
        self.make(true, events)
    }

    /// Writes the file.
    ///
    /// # Errors
    /// Invalid options, an input that cannot be read, an output that cannot be written.
    pub fn run(&self, events: &dyn Events) -> Result<VocabReport, Error> {
        let report = self.make(false, events)?;
        let VocabReport { output, bytes, tokens, .. } = &report;
        events.status(format!("wrote {output}: {bytes} bytes ({}), {tokens} tokens", human_bytes(*bytes)));
        Ok(report)
    }

    fn make(&self, dry_run: bool, events: &dyn Events) -> Result<VocabReport, Error> {
        let file_type = match self.file_type {
            None => None,
            Some(FileType::Named(recipe)) if is_of_converter(recipe) => Some(recipe.file_type),
            Some(other) => {
                return Err(Error::usage(format_args!("expected f32, f16, bf16 or q8_0, found {other}")));
            }
        };
        if self.arch.custom.is_some() {
            return Err(Error::usage("a custom architecture needs the weights"));
        }
        let wanted = hub::Wanted { weights: false, keep: false, out: None };
        let input = hub::input(&self.source, wanted, &self.hub, events)?;
        let options = self.arch.resolving(&self.naming, &self.hub, events)?;
        let options = gguf_layout::Options { vocab_only: true, ..options };
        let folder = self.reading.apply(&input.folder);
        let report = self.write(&folder, file_type, &options, dry_run, events);
        let report = report.map_err(|error| failure(&self.source, error))?;
        input.finish(events)?;
        Ok(report)
    }

    fn write(
        &self,
        folder: &Folder,
        file_type: Option<FileTypeId>,
        options: &gguf_layout::Options,
        dry_run: bool,
        events: &dyn Events,
    ) -> Result<VocabReport, EngineError> {
        // Weights only determine the file type that the reference states; without them it is f16.
        let checkpoint = gguf_checkpoint::open(folder.clone())
            .or_else(|_| gguf_checkpoint::open_without_weights(folder.clone()))
            .map_err(EngineError::Source)?;
        let checkpoint = gguf_conversion::normalized(checkpoint, options)?;
        let layout = gguf_conversion::resolve(&checkpoint, options)?;
        let file_type = file_type.unwrap_or_else(|| gguf_conversion::guessed_file_type(&checkpoint));
        let endian = PlainOptions { big_endian: self.big_endian, ..PlainOptions::default() }.endian();
        let plan = gguf_conversion::plan_vocab(&layout, file_type, endian)?;
        let default_name = gguf_layout::vocab_file_name(&layout.metadata);
        let out = self.out.as_deref();
        let path = gguf_conversion::output_path(out, &default_name, &format!("{file_type:?}"))?;
        check_output(&path, out, folder.path(), self.force || dry_run)?;
        let notes = Notes::of(&checkpoint.notes, &[&layout]);
        notes.tell(events);
        let find = |key: &str| layout.metadata.get(key);
        let report = VocabReport {
            input: self.source.display().to_string(),
            output: path.display().to_string(),
            architecture: layout.architecture,
            tokenizer: find("tokenizer.ggml.model")
                .and_then(gguf_container::Value::as_str)
                .unwrap_or_default()
                .to_owned(),
            tokens: find("tokenizer.ggml.tokens")
                .and_then(gguf_container::Value::as_array)
                .map_or(0, gguf_container::Array::len),
            keys: layout.metadata.len(),
            bytes: plan.unpadded_header_bytes().len() as u64,
            dry_run,
            notes: notes.all(),
        };
        if !dry_run {
            make_folder_of(&path)?;
            gguf_conversion::write_vocab(&plan, &path, self.force)?;
        }
        Ok(report)
    }
}
