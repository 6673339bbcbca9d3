//! Conversion of a LLaMA file in a format older than GGUF.

use std::path::{Path, PathBuf};

use gguf_conversion::{Error as EngineError, LegacyInput, recipes::Recipe};
use gguf_layout::{Layout, LegacyOptions};
use serde::{Deserialize, Serialize};

use super::{
    options::{EncodingOptions, NamingOptions, OutputOptions, named_recipes},
    run::run,
    run_args::{Caller, OpenInput, Outcome, Requested, RunArgs},
};
use crate::{
    error::Error,
    events::Events,
    failure::failure,
    file_type::FileType,
    hub::HubOptions,
    layout_notes::Notes,
    settings::{OtherSettings, RecipeOptions, TensorOptions},
};

/// Conversion of a LLaMA file in a format older than GGUF: ggml, ggmf or ggjt.
///
/// # Examples
/// ```no_run
/// use gguf_toolkit::ConvertLegacy;
///
/// # fn main() -> Result<(), gguf_toolkit::Error> {
/// // Without a type, the quantized blocks are copied.
/// let mut convert = ConvertLegacy::new("ggml-model-q4_0.bin", []);
/// convert.eps = Some(1e-6);
/// convert.run(&())?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ConvertLegacy {
    /// The file; the first one if there are several parts.
    #[serde(with = "crate::path_json::one")]
    pub source: PathBuf,
    /// File types. Empty: all tensors are copied.
    pub types: Vec<FileType>,
    /// Folder with `config.json` and the tokenizer files of the model. Without it, the few numbers and the plain texts
    /// of tokens in the file are used.
    #[serde(with = "crate::path_json::optional")]
    pub config: Option<PathBuf>,
    /// Epsilon of the norms. Default: 5e-6, as in the reference.
    pub eps: Option<f32>,
    /// Context length in tokens. Default: 2048.
    pub context: Option<u32>,
    /// Base of the rotary frequencies. Default: 10000.
    pub rope_base: Option<f32>,
    /// Name and tokenizer.
    pub naming: NamingOptions,
    /// Encoding of weights.
    pub encoding: EncodingOptions,
    /// Types of tensors, importance matrix, metadata, layers and shards.
    pub tensors: TensorOptions,
    /// Recipe files.
    pub replay: RecipeOptions,
    /// Output.
    pub output: OutputOptions,
}

impl ConvertLegacy {
    /// Does the part of the conversion that a caller asks for.
    ///
    /// # Errors
    /// As [`ConvertLegacy::run`].
    pub fn run_for(&self, caller: Caller<'_>, events: &dyn Events) -> Result<Outcome, Error> {
        if self.source.is_dir() {
            return Err(Error::usage(format_args!(
                "{}: expected a ggml, ggmf or ggjt file, found a folder",
                self.source.display()
            )));
        }
        let failed = |error| failure(&self.source, error);
        let call = caller
            .call
            .reads([self.source.as_path()])
            .reads(self.tensors.files())
            .reads(self.replay.file())
            .reads(self.config.as_deref());
        let other = OtherSettings { allow_requantize: true, ..self.encoding.settings() };
        let settings = self.tensors.read(&self.replay, other, &HubOptions::default(), events)?;
        let arch = self.naming.resolving();
        let config = self.config.as_deref().map(|folder| config(folder, &arch)).transpose()?;
        let options = LegacyOptions {
            model_name: arch.model_name.clone(),
            epsilon: self.eps,
            context_length: self.context,
            rope_base: self.rope_base,
        };
        let input = LegacyInput::open(gguf_models::FAMILIES, &self.source, &options, config.as_ref())
            .map_err(failed)?;
        let (model, layout) = (input.model(), input.layout());
        let open = OpenInput {
            path: &self.source,
            files: model.paths.clone(),
            format: model.container.name,
            architecture: layout.architecture.to_owned(),
            notes: Notes::of(&[], &[layout]),
            dropped: layout.dropped.clone(),
            stored_as: input.stored_as(),
            repacked: Vec::new(),
            input,
        };
        let mut recipes = named_recipes(&self.types)?;
        if recipes.is_empty() && self.replay.recipe.is_none() {
            recipes.push(Recipe::from_name("COPY").map_err(Error::new)?);
        }
        let args = RunArgs::new(&self.output, settings.nonfinite(), Caller { call, ..caller });
        run(open, Requested::new(recipes, &settings), &args, events)
    }
}

/// Keys and vocabulary of a config folder; weights are not needed.
fn config(folder: &Path, options: &gguf_layout::Options) -> Result<Layout, Error> {
    let failed = |error| failure(folder, error);
    let checkpoint =
        gguf_checkpoint::open_without_weights(folder).map_err(|error| failed(EngineError::Source(error)))?;
    let options = gguf_layout::Options { vocab_only: true, ..options.clone() };
    let layout = gguf_conversion::resolve(&checkpoint, &options).map_err(failed)?;
    match layout.architecture {
        "llama" => Ok(layout),
        other => Err(Error::at(folder, format_args!("expected a config of `llama`, found `{other}`"))),
    }
}
