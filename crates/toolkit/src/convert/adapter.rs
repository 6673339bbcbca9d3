//! Conversion of a LoRA adapter to a GGUF adapter file.

use std::path::PathBuf;

use gguf_checkpoint::{Checkpoint, Folder};
use gguf_conversion::{AdapterInput, recipes::Recipe};
use serde::{Deserialize, Serialize};

use super::{
    options::{OutputOptions, PlainOptions, is_of_converter, named_recipes},
    report::{Report, stored_as},
    run::run,
    run_args::{Caller, OpenInput, Outcome, Requested, RunArgs},
};
use crate::{
    adapter::{local_base, open_base},
    error::Error,
    events::Events,
    failure::{failure, quoted, source_failure},
    file_type::FileType,
    hub::{self, HubOptions},
    input_kind::{Wanted, base_of_adapter},
    layout_notes::Notes,
    settings::Settings,
};
use gguf_types::words;

/// Conversion of a LoRA adapter, as PEFT or mlx-lm saves it, to a GGUF adapter file.
///
/// # Examples
/// ```no_run
/// use gguf_toolkit::{ConvertAdapter, FileType};
///
/// # fn main() -> Result<(), gguf_toolkit::Error> {
/// let mut convert = ConvertAdapter::new("my-adapter", [FileType::F16]);
/// convert.base = Some("Llama-3.2-1B".into());
/// convert.run(&())?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ConvertAdapter {
    /// Adapter folder, or `hf://OWNER/ADAPTER[@REVISION]`.
    #[serde(with = "crate::path_json::one")]
    pub source: PathBuf,
    /// File types: F32, F16, BF16 or Q8_0. Empty: F32.
    pub types: Vec<FileType>,
    /// Folder or address of the base model, of which `config.json` suffices. Default: the model that the adapter
    /// names, if it is a local folder.
    #[serde(with = "crate::path_json::optional")]
    pub base: Option<PathBuf>,
    /// Store downloads in the local cache of the Hub.
    pub keep: bool,
    /// Name of the model, instead of that in the adapter.
    pub model_name: Option<String>,
    /// Name or class of the architecture, instead of that in the config.
    pub arch_as: Option<String>,
    /// Values of weights and their byte order.
    pub plain: PlainOptions,
    /// Output.
    pub output: OutputOptions,
    /// Access to the Hub.
    pub hub: HubOptions,
}

impl ConvertAdapter {
    /// Does the part of the conversion that a caller asks for.
    ///
    /// # Errors
    /// As [`ConvertAdapter::run`].
    pub fn run_for(&self, caller: Caller<'_>, events: &dyn Events) -> Result<Outcome, Error> {
        let mut recipes = named_recipes(&self.types)?;
        if !recipes.iter().all(|recipe| is_of_converter(recipe)) {
            return Err(self.refused_type());
        }
        if recipes.is_empty() {
            recipes.push(Recipe::from_name("F32").map_err(Error::new)?);
        }
        let failed = |error| failure(&self.source, error);
        let wanted = hub::Wanted { weights: true, keep: self.keep, out: None };
        let input = hub::input(&self.source, wanted, &self.hub, events)?;
        let wanted = hub::Wanted { weights: false, keep: false, out: None };
        let base = self.base.as_deref().map(|base| hub::input(base, wanted, &self.hub, events));
        let base = base.transpose()?;
        let call = base.iter().fold(input.name_in(caller.call), |call, base| base.name_in(call));

        let options = gguf_layout::Options {
            arch_as: self.arch_as.clone(),
            ..gguf_layout::Options::new(gguf_models::FAMILIES).named(self.model_name.clone())
        };
        let adapter = gguf_checkpoint::open_adapter(input.folder.clone())
            .map_err(|error| source_failure(&self.source, error.into(), Wanted::AdapterFolder))?;
        let base = self.base_of(base.as_ref().map(|base| &base.folder), &adapter)?;
        let base = open_base(&base, &options)?;
        let adapter = AdapterInput::new(input.folder.path(), adapter, &base, &options).map_err(failed)?;
        let (stored, layout) = (adapter.adapter(), adapter.layout());
        let mut notes = Notes::of(&stored.notes, &[layout]).with_warnings(&stored.warnings);
        if !layout.warnings.is_empty() {
            notes
                .notes
                .push(words!("to merge all pairs, use `[gguf-convert BASE -lora ADAPTER -with-mmproj]`"));
        }
        let open = OpenInput {
            path: &self.source,
            files: Vec::new(),
            format: stored.format,
            architecture: layout.architecture.to_owned(),
            notes,
            dropped: layout.dropped.clone(),
            stored_as: layout.tensors.iter().map(|tensor| stored_as(stored, &tensor.data)).collect(),
            repacked: Vec::new(),
            input: adapter,
        };
        let args = RunArgs::new(&self.output, self.plain.nonfinite(), Caller { call, ..caller });
        let settings = Settings::of_byte_order(self.plain.endian());
        let outcome = run(open, Requested::new(recipes, &settings), &args, events)?;
        input.finish(events)?;
        let written = outcome.report.as_ref().filter(|report| !report.dry_run);
        if let Some([path]) = written.map(Report::paths).as_deref() {
            let path = quoted(&path.display().to_string());
            events.status(words!("chat with it: [gguf-eval chat BASE.gguf -lora {}]", path));
        }
        Ok(outcome)
    }

    /// The error of a type that adapter files cannot have. Calls with such a type usually mean a merged model.
    fn refused_type(&self) -> Error {
        let types: Vec<String> = self.types.iter().map(ToString::to_string).collect();
        let out = self.output.out.as_deref().unwrap_or(std::path::Path::new("OUT"));
        Error::usage(words!("expected [-type] f32, f16, bf16 or q8_0 for an adapter")).hint([words!(
            "to merge it into its base, run `[gguf-convert {} {} -type {} -lora {}]`",
            quoted(&base_of_adapter(&self.source)),
            quoted(&out.display().to_string()),
            types.join(","),
            quoted(&self.source.display().to_string())
        )])
    }

    /// The folder of the base model: the given one, or the one that the adapter names if it is a local folder.
    fn base_of(&self, base: Option<&Folder>, adapter: &Checkpoint) -> Result<Folder, Error> {
        let named =
            adapter.config.get("base_model_name_or_path").and_then(|name| name.as_str()).unwrap_or_default();
        if let Some(base) = base {
            if !gguf_checkpoint::is_adapter(base) || base.path().join("config.json").is_file() {
                return Ok(base.clone());
            }
            let message = match named {
                "" => format!("{}, expected its base model", adapter.format),
                named => format!("{}, expected its base model `{named}`", adapter.format),
            };
            let is_mlx = adapter.format == gguf_checkpoint::MLX_ADAPTER;
            let fuse = is_mlx.then_some("to merge the two, use `mlx_lm.fuse`");
            let hint = words!("pass the base model's folder with [-base]; config.json is enough");
            return Err(Error::at(base.path(), message).hint([hint]).hint(fuse));
        }
        if let Some(folder) = local_base(&adapter.config) {
            return Ok(folder);
        }
        let message = match named {
            "" => "missing config of the base model".to_owned(),
            named => format!("missing config of the base model `{named}`"),
        };
        Err(Error::at(&self.source, message)
            .hint([words!("pass its folder (config.json is enough) or hf://OWNER/MODEL with [-base]")]))
    }
}
