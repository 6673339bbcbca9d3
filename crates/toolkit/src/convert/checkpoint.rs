//! Conversion of a checkpoint to GGUF files.

use std::path::{Path, PathBuf};

use gguf_checkpoint::{Checkpoint, Folder};
use gguf_container::Model;
use gguf_conversion::{CheckpointInput, merge::LoraAdapter, recipes::Recipe};
use gguf_layout::{ArchError, ForeignFormat};
use gguf_runtime::memory::Demand;
use gguf_tokenizer::{huggingface::VocabError, keys::CHAT_TEMPLATE};
use gguf_types::{DType, Words, words};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    adapter::ConvertAdapter,
    calibrated::{self, Calibrated},
    input_type::InputType,
    legacy::ConvertLegacy,
    opened::opened,
    options::{
        ArchOptions, EncodingOptions, FamilyOptions, MtpLayers, NamingOptions, OutputOptions, ReadingOptions,
        is_of_converter, recipe_of, recipes_of, require_types,
    },
    report::Report,
    run::run,
    run_args::{Caller, OpenInput, Outcome, Parts, Requested, RunArgs},
};
use crate::{
    adapter::Adapter,
    calibration::{BudgetOptions, CalibrationOptions, NamedInput, types_by_weights::Basis},
    call::{given_options, option_name},
    container_file::{self, is_projector},
    error::Error,
    events::Events,
    failure::{failure, quoted},
    file_type::FileType,
    hub::{self, HubOptions},
    layout_notes::{left_out_towers, report_unread_keys},
    modelfile,
    outputs::{check_distinct, check_outputs, write_file},
    settings::{OtherSettings, RecipeOptions, TensorOptions},
};

/// Conversion of a checkpoint to GGUF files.
///
/// A checkpoint is a folder with `config.json`, weights and tokenizer files, the address of such a model on the Hugging
/// Face Hub, a text encoder in one file, or a diffusion model in a file or folder. A folder with a LoRA adapter is converted
/// like [`ConvertAdapter`], and a LLaMA file in a format older than GGUF like [`ConvertLegacy`].
///
/// # Examples
/// ```no_run
/// use gguf_toolkit::{Convert, FileType};
///
/// # fn main() -> Result<(), gguf_toolkit::Error> {
/// let mut convert = Convert::new("Llama-3.2-1B", [FileType::Q4_K_M, FileType::Q8_0]);
/// convert.output.out = Some("out/".into());
/// let plan = convert.plan(&())?;
/// println!("{}", plan.report.text(false));
/// for path in convert.run(&())?.paths() {
///     println!("{}", path.display());
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[serde(default, deny_unknown_fields)]
pub struct Convert {
    /// Checkpoint folder, or `hf://OWNER/MODEL[@REVISION]`.
    #[cfg_attr(feature = "clap", arg(skip))]
    #[serde(with = "crate::path_json::one")]
    pub source: PathBuf,
    /// File types to make in one pass. Empty: the types of a recipe file or, without one, the type that suits `memory`.
    #[cfg_attr(feature = "clap", arg(skip))]
    pub types: Vec<FileType>,
    /// Set the memory size, for example 16GB or 24GiB.
    ///
    /// Without --type, the file type of the best quality for this memory is written, from q8_0 to q2_k. Default: the memory of this
    /// machine.
    #[cfg_attr(feature = "clap", arg(long, value_name = "SIZE", value_parser = crate::sizes::parse_memory_size, conflicts_with_all = ["types", "recipe"], hide_short_help = true))]
    pub memory: Option<u64>,
    /// Write a Modelfile for Ollama.
    ///
    /// `ollama create NAME -f FILE` imports the file that is written, the first one of several types. It has the sampling defaults of
    /// the model, and TEMPLATE and stop words if the chat template can be translated, because Ollama may replace a template.
    #[cfg_attr(feature = "clap", arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath, hide_short_help = true))]
    #[serde(with = "crate::path_json::optional")]
    pub modelfile: Option<PathBuf>,
    /// Format of another runtime to write instead of GGUF, of [`foreign_formats`](crate::foreign_formats). Without `types`, its
    /// first one is used.
    #[cfg_attr(feature = "clap", arg(skip))]
    #[serde(with = "crate::by_name::optional")]
    pub to: Option<&'static ForeignFormat>,
    /// Add a LoRA adapter (repeatable).
    ///
    /// ADAPTER is a folder or hf://OWNER/ADAPTER[@REVISION] in the format of PEFT (adapter_config.json,
    /// adapter_model.safetensors), or a LoRA adapter of mlx-lm (adapters.safetensors). SCALE defaults to 1. Several
    /// adapters are merged in the given order. Weights are rounded once, to their type in the file. Metadata and
    /// tokenizer are taken from the checkpoint; see --lora-tokenizer. For a diffusion model, ADAPTER is a safetensors
    /// file or a folder with one.
    #[expect(rustdoc::broken_intra_doc_links, reason = "the text is also the help")]
    #[cfg_attr(feature = "clap", arg(long = "lora", value_name = "ADAPTER[=SCALE]", value_hint = clap::ValueHint::AnyPath))]
    pub adapters: Vec<Adapter>,
    /// Use the tokenizer of the adapter (requires --lora).
    ///
    /// Also uses the adapter's chat template, and its embeddings if the vocabulary was resized. The result is the same
    /// as calling `resize_token_embeddings`, `merge_and_unload` and `tokenizer.save_pretrained` in Python. The last
    /// adapter with a tokenizer wins.
    #[cfg_attr(feature = "clap", arg(long, requires = "adapters", hide_short_help = true))]
    pub lora_tokenizer: bool,
    /// Also write the vision or audio projector.
    ///
    /// The file is named like the model file, with the prefix `mmproj-` and its own file type.
    #[cfg_attr(feature = "clap", arg(long, conflicts_with = "RecipeOptions", hide_short_help = true))]
    pub with_mmproj: bool,
    /// Set the file type of the projector (requires --with-mmproj).
    ///
    /// Default: the first --type if it is a float type or q8_0, otherwise f16.
    #[cfg_attr(
        feature = "clap",
        arg(long, value_name = "TYPE", requires = "with_mmproj", hide_short_help = true)
    )]
    pub mmproj_type: Option<FileType>,
    /// Set the type of FP8 matrices; only q8_0 is supported.
    ///
    /// Requires --type f32, f16 or bf16. q8_0 is about the same size as FP8 and is faster than the float types.
    #[cfg_attr(feature = "clap", arg(long, value_name = "DTYPE", value_parser = crate::arguments::fp8_as(), hide_possible_values = true, conflicts_with = "recipe", hide_short_help = true))]
    #[serde(with = "crate::by_name::optional")]
    pub fp8_as: Option<DType>,
    /// Keep quantized weights bit for bit if a ggml type can hold them.
    ///
    /// Applies to GPTQ, AWQ, MLX and other quantized checkpoints, and overrides --type for these tensors. The output
    /// lists the tensors that were kept, and why others were converted.
    #[cfg_attr(feature = "clap", arg(long, conflicts_with = "RecipeOptions", hide_short_help = true))]
    pub repack: bool,
    /// Interpretation of the checkpoint's files.
    #[cfg_attr(feature = "clap", command(flatten))]
    pub reading: ReadingOptions,
    /// Read configuration and tokenizer from DIR.
    ///
    /// DIR holds the tokenizer files, and config.json if the weights are a single file. By default both are next to the
    /// weights. The tokenizer of a text encoder of a diffusers pipeline is found in the folder next to it: tokenizer_2 for
    /// text_encoder_2.
    #[cfg_attr(feature = "clap", arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath, help_heading = "Checkpoint", hide_short_help = true))]
    #[serde(with = "crate::path_json::optional")]
    pub config: Option<PathBuf>,
    /// Store downloads in the local Hugging Face cache.
    ///
    /// Checksums are verified. By default, downloads are not stored.
    #[cfg_attr(
        feature = "clap",
        arg(long, conflicts_with = "dry_run", help_heading = "Checkpoint", hide_short_help = true)
    )]
    pub keep: bool,
    /// Architecture.
    #[cfg_attr(feature = "clap", command(flatten))]
    pub arch: ArchOptions,
    /// Families of image and video models.
    #[cfg_attr(feature = "clap", command(flatten))]
    pub families: FamilyOptions,
    /// Keep the shapes of tensors of UNets (Stable Diffusion 1.x, 2.x and XL).
    ///
    /// stable-diffusion.cpp and diffusers need them. By default, their tensors are stored in rows of 256 elements for ComfyUI.
    #[cfg_attr(feature = "clap", arg(long, help_heading = "Output file", hide_short_help = true))]
    pub no_reshape: bool,
    /// Name and tokenizer.
    #[cfg_attr(feature = "clap", command(flatten))]
    pub naming: NamingOptions,
    /// Encoding of weights.
    #[cfg_attr(feature = "clap", command(flatten))]
    pub encoding: EncodingOptions,
    /// Types of tensors, importance matrix, metadata, layers and shards.
    #[cfg_attr(feature = "clap", command(flatten))]
    pub tensors: TensorOptions,
    /// Recipe files.
    #[cfg_attr(feature = "clap", command(flatten))]
    pub replay: RecipeOptions,
    /// Calibration texts, if any.
    #[cfg_attr(feature = "clap", command(flatten))]
    pub calibration: CalibrationOptions,
    /// Choice of types for a size, with a calibration.
    #[cfg_attr(feature = "clap", command(flatten))]
    pub budget: BudgetOptions,
    /// Output.
    #[cfg_attr(feature = "clap", arg(skip))]
    pub output: OutputOptions,
    /// Access to the Hub.
    #[cfg_attr(feature = "clap", arg(skip))]
    pub hub: HubOptions,
}

impl Convert {
    /// Does the part of the conversion that a caller asks for.
    ///
    /// # Errors
    /// As [`Convert::run`].
    pub fn run_for(&self, caller: Caller<'_>, events: &dyn Events) -> Result<Outcome, Error> {
        if let Some(format) = self.to.filter(|_| self.source.is_file()) {
            return Err(Error::at(&self.source, "expected a checkpoint folder, found a file").hint([
                format!(
                    "use the model's folder from the Hugging Face Hub; {} has converters for other files",
                    format.name
                ),
            ]));
        }
        match InputType::of(&self.source) {
            InputType::Adapter => return self.as_adapter()?.run_for(caller, events),
            InputType::Legacy => return self.as_legacy()?.run_for(caller, events),
            InputType::Diffusion => return self.convert_diffusion(caller, events),
            InputType::Checkpoint => {}
        }
        let of_images = [
            (self.families.family.is_some(), words!("[-family]")),
            (self.no_reshape, words!("[-no-reshape]")),
        ];
        if let Some((_, option)) = of_images.into_iter().find(|(is_given, _)| *is_given) {
            return Err(Error::usage(option + words!(" cannot be used with a language model")));
        }
        if let Some(format) = self.to {
            self.check_foreign(format, &caller.parts)?;
        }
        let gathers = self.calibration.is_wanted();
        if gathers {
            self.check_calibration(&caller.parts)?;
        }
        self.budget.check_basis(gathers, self.tensors.imatrix.is_some())?;
        self.check_modelfile(&caller)?;
        let out = self.output.storage(caller.dry_run);
        let wanted = hub::Wanted { weights: true, keep: self.keep, out };
        let input = hub::input(&self.source, wanted, &self.hub, events)?;
        let folder = self.reading.apply(&input.folder).config_from(self.config.clone());
        if gguf_checkpoint::is_adapter(&folder) {
            return Err(Error::at(&self.source, "expected a checkpoint, found a LoRA adapter")
                .hint([words!("use `[gguf-convert adapter]` to convert an adapter")]));
        }
        let adapters = self.adapters.iter().map(|lora| hub::input(&lora.path, wanted, &self.hub, events));
        let adapters = adapters.collect::<Result<Vec<hub::Input>, Error>>()?;
        let call = caller
            .call
            .reads(self.tensors.files())
            .reads(self.replay.file())
            .reads(self.arch.target_model_dir.as_deref())
            .reads(self.config.as_deref())
            .reads(self.calibration.files());
        let call = [&input].into_iter().chain(&adapters).fold(call, |call, input| input.name_in(call));
        let is_whole = caller.parts.is_whole();
        let outcome = self.convert(&folder, &adapters, Caller { call, ..caller }, events)?;
        let written = outcome.report.as_ref().filter(|report| !report.dry_run);
        if let (Some(path), Some(report)) = (&self.modelfile, written) {
            self.write_modelfile(path, report, events)?;
        }
        let is_one = is_whole && self.types.len() <= 1 && self.to.is_none();
        if let Some(report) = written.filter(|_| is_one && self.arch.prediction != MtpLayers::Only) {
            tell_of_chat(report, events);
        }
        adapters.into_iter().try_for_each(|adapter| adapter.finish(events))?;
        input.finish(events)?;
        Ok(outcome)
    }

    fn convert(
        &self,
        folder: &Folder,
        adapters: &[hub::Input],
        caller: Caller<'_>,
        events: &dyn Events,
    ) -> Result<Outcome, Error> {
        let failed = |error| failure(&self.source, error);
        if let Some(format) = self.to {
            return self.convert_to(format, folder, &self.loras(adapters), caller, events);
        }
        let by_memory = self.has_no_type();
        if by_memory && !self.can_choose_type(&caller.parts) {
            require_types(&self.types, &self.source, folder)?;
        }
        let is_float =
            |file_type: &FileType| file_type.recipe().is_none_or(|recipe| recipe.default.is_float());
        if self.fp8_as.is_some() && !self.types.iter().all(is_float) {
            return Err(Error::usage(words!("[-fp8-as] requires [-type] f32, f16 or bf16")));
        }
        let gathers = self.calibration.is_wanted();
        let is_calibrated = gathers && !caller.dry_run;
        let other = OtherSettings {
            fp8_as: self.fp8_as,
            repack: self.repack,
            // With a calibration, the intermediate file has this type.
            via: self.encoding.via.filter(|_| !is_calibrated),
            ..self.encoding.settings()
        };
        let settings = self.tensors.read(&self.replay, other, &self.hub, events)?;
        let adapters = self.loras(adapters);
        let input = self.open(folder, &adapters, events)?;
        let (checkpoint, layout) = (input.checkpoint(), input.layout());
        let (recipes, caller) = if by_memory {
            self.suited_type(&input, &settings, caller, events)?
        } else {
            (recipes_of(&self.types, checkpoint)?, caller)
        };
        let projector = self.with_mmproj.then(|| self.projector_type(&recipes, checkpoint)).transpose()?;
        if self.fp8_as.is_some() && !layout.tensors.iter().any(|tensor| input.is_fp8(tensor)) {
            events.warning(words!("[-fp8-as]: no tensor of the checkpoint is FP8"));
        }
        let mut open = opened(input, &self.source);
        self.note_unwritten(&mut open, &adapters, events);
        if self.repack {
            open.repacked = open.input.repacked().map_err(failed)?.to_vec();
        }
        let mut args = RunArgs::new(&self.output, settings.nonfinite(), caller);
        args.gathers = gathers;
        if is_calibrated {
            let between = match (self.encoding.via, adapters.is_empty()) {
                (Some(via), _) => via.name(),
                (None, true) => calibrated::lossless(open.input.checkpoint()),
                // Merged weights are rounded once.
                (None, false) => "f32",
            };
            let job = Calibrated {
                recipes,
                between: Recipe::from_name(between).map_err(Error::new)?,
                settings,
                calibration: &self.calibration,
                budget: &self.budget,
            };
            return calibrated::run(open, job, args, events);
        }
        let settings = if gathers {
            settings
        } else {
            let named = NamedInput { input: &open.input, path: open.path };
            let (budget, basis) = (&self.budget, Basis::Importance);
            budget.decide_by_weight_error(named, &recipes, settings, basis, &args.options, events)?
        };
        run(open, Requested { projector, ..Requested::new(recipes, &settings) }, &args, events)
    }

    /// Adds notes about parts of the checkpoint and of the adapters that the output lacks.
    fn note_unwritten(
        &self,
        open: &mut OpenInput<'_, CheckpointInput>,
        adapters: &[LoraAdapter],
        events: &dyn Events,
    ) {
        let (checkpoint, layout) = (open.input.checkpoint(), open.input.layout());
        let unwritten = merged_and_dropped(checkpoint, &open.dropped);
        if !adapters.is_empty() && !unwritten.is_empty() {
            open.notes.warnings.push(words!("{} of the adapter not written; add [-with-mmproj] if they belong to a vision tower or audio encoder: {}", gguf_types::counted(unwritten.len(), "tensor"), gguf_types::list_names(&unwritten)));
        }
        if !self.lora_tokenizer && has_own_tokenizer(adapters, checkpoint) {
            open.notes.notes.push(words!("[-lora-tokenizer] uses the adapter's tokenizer and chat template"));
        }
        let foreign =
            gguf_models::FAMILIES.foreign.iter().filter(|format| format.arch.name == layout.architecture);
        open.notes.notes.extend(foreign.map(|format| {
            let name = format.name;
            words!("{} does not read GGUF; to write a file for {}, use [-to {}]", name, name, name)
        }));
        if !self.with_mmproj {
            let note = left_out_towers(&gguf_models::FAMILIES, &checkpoint.config, &open.dropped);
            open.notes.notes.extend(note);
        }
        open.notes.notes.extend(report_unread_keys(layout, self.arch.arch_as.is_some(), events));
    }

    /// True if the type is chosen for the memory.
    fn has_no_type(&self) -> bool {
        self.types.is_empty() && self.replay.recipe.is_none() && self.to.is_none()
    }

    fn check_modelfile(&self, caller: &Caller<'_>) -> Result<(), Error> {
        let Some(path) = &self.modelfile else { return Ok(()) };
        if !caller.parts.is_whole() {
            return Err(Error::usage(words!("[-modelfile] cannot be used with plans")));
        }
        let outputs: Vec<&PathBuf> = [path].into_iter().chain(&self.output.out).collect();
        check_distinct(&outputs, &[&self.source])?;
        // The conversion creates the folder of OUT if OUT is a folder, and refuses a missing one otherwise.
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty() && !folder.exists());
        let of_out = self.output.out.as_deref().map(|out| gguf_conversion::output_path(Some(out), "x", "x"));
        if folder.is_some() && matches!(&of_out, Some(Ok(out)) if out.parent() == folder) {
            return Ok(());
        }
        check_outputs(&[path], &[&self.source], self.replaces() || caller.dry_run)
    }

    /// True if an existing `Modelfile` is overwritten.
    fn replaces(&self) -> bool {
        self.output.force || self.output.resume
    }

    /// Writes the `Modelfile` of the first type.
    fn write_modelfile(&self, path: &Path, report: &Report, events: &dyn Events) -> Result<(), Error> {
        let first = report.outputs.first().map(|output| output.file_type);
        let (mut files, mut projectors) = (Vec::new(), Vec::new());
        for output in &report.outputs {
            if is_projector(container_file::open(&output.path)?.metadata()) {
                projectors.push(output.path.clone());
            } else if Some(output.file_type) == first {
                files.push(output.path.clone());
            }
        }
        if files.len() > 1 {
            let merge = words!("; make one file with `[gguf-inspect merge]`");
            events.warning(words!("Ollama imports single files, not {} shards", files.len()) + merge);
        }
        files.truncate(1);
        files.extend(projectors.into_iter().next());
        write_file(path, modelfile::of_files(path, &files)?.as_bytes(), self.replaces())?;
        events.status(format!("wrote {}", path.display()));
        Ok(())
    }

    /// The adapters with the folders that were found for them.
    fn loras(&self, adapters: &[hub::Input]) -> Vec<LoraAdapter> {
        let adapters = self.adapters.iter().zip(adapters).map(|(lora, found)| LoraAdapter {
            folder: found.folder.clone(),
            name: lora.path.clone(),
            scale: lora.scale,
            takes_tokenizer: self.lora_tokenizer,
        });
        adapters.collect()
    }

    fn open(
        &self,
        folder: &Folder,
        adapters: &[LoraAdapter],
        events: &dyn Events,
    ) -> Result<CheckpointInput, Error> {
        let failed = |error| failure(&self.source, error);
        let options = self.arch.resolving(&self.naming, &self.hub, events)?;
        let custom = self.arch.custom;
        let input = CheckpointInput::open_with_adapters(folder.clone(), adapters, &options, custom);
        let input = input.map_err(|error| {
            let lacks = self.lacking(&error);
            failed(error).hint(lacks)
        })?;
        if self.with_mmproj { input.with_projector(&options).map_err(failed) } else { Ok(input) }
    }

    /// Advice for a model whose config or tokenizer is in another folder.
    fn lacking(&self, error: &gguf_conversion::Error) -> Option<Words> {
        use gguf_conversion::Error as E;
        let name = self.source.file_name().unwrap_or_default().to_string_lossy();
        let is_apart = self.source.is_file() || name.starts_with("text_encoder");
        match error {
            E::Source(gguf_checkpoint::Error::MissingFile { file }) if is_apart && file == "config.json" => {
                Some(words!(
                    "use [-config DIR] to read config.json and the tokenizer from a folder of the model"
                ))
            }
            E::Arch(ArchError::Vocab(VocabError::NoTokenizer { .. })) if is_apart => {
                Some(words!("use [-config DIR] to read the tokenizer from another folder"))
            }
            _ => None,
        }
    }

    /// The same as the conversion of an adapter.
    fn as_adapter(&self) -> Result<ConvertAdapter, Error> {
        self.allow_only(&["types", "naming.model_name", "arch.arch_as", "encoding.plain"], "an adapter")?;
        Ok(ConvertAdapter {
            keep: self.keep,
            model_name: self.naming.model_name.clone(),
            arch_as: self.arch.arch_as.clone(),
            plain: self.encoding.plain,
            output: self.output.clone(),
            hub: self.hub.clone(),
            ..ConvertAdapter::new(&self.source, self.types.iter().copied())
        })
    }

    /// The same as the conversion of a file in a format older than GGUF.
    fn as_legacy(&self) -> Result<ConvertLegacy, Error> {
        self.allow_only(
            &["types", "naming", "encoding", "tensors", "replay"],
            "a file in a format older than GGUF",
        )?;
        Ok(ConvertLegacy {
            naming: self.naming.clone(),
            encoding: self.encoding,
            tensors: self.tensors.clone(),
            replay: self.replay.clone(),
            output: self.output.clone(),
            ..ConvertLegacy::new(&self.source, self.types.iter().copied())
        })
    }

    /// Fails if an option is set that another type of input does not have.
    pub(super) fn allow_only(&self, allowed: &[&str], input: &str) -> Result<(), Error> {
        let is_allowed = |path: &str| {
            let rest = allowed.iter().find_map(|allowed| path.strip_prefix(allowed));
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        let custom = self.arch.custom.map(|_| ("arch.custom".to_owned(), Value::Null));
        let given = given_options(self)?.into_iter().chain(custom);
        match given.into_iter().find(|(path, _)| !is_allowed(path)) {
            Some((path, _)) => {
                Err(Error::usage(option_name(&path) + words!(" cannot be used with {}", input)))
            }
            None => Ok(()),
        }
    }

    /// Fails if the output is not a model that runs from one GGUF file.
    fn check_calibration(&self, parts: &Parts<'_>) -> Result<(), Error> {
        let others = [
            (self.with_mmproj, words!("[-with-mmproj]")),
            (self.arch.prediction == MtpLayers::Only, words!("[-mtp]")),
            (self.fp8_as.is_some(), words!("[-fp8-as]")),
            (self.repack, words!("[-repack]")),
            (!parts.is_whole(), words!("plans")),
        ];
        match others.into_iter().find(|(is_given, _)| *is_given) {
            None => Ok(()),
            Some((_, other)) => {
                let message = words!("[-calibrate] cannot be used with ") + other;
                let hint = words!("convert with [-type bf16] first, then use [gguf-quantize -calibrate]");
                Err(Error::usage(message).hint([hint]))
            }
        }
    }

    /// The type of the projector next to a model.
    fn projector_type(
        &self,
        recipes: &[&'static Recipe],
        checkpoint: &Checkpoint,
    ) -> Result<&'static Recipe, Error> {
        if let Some(file_type) = self.mmproj_type {
            return recipe_of(file_type, checkpoint);
        }
        match recipes.first().filter(|recipe| is_of_converter(recipe)) {
            Some(recipe) => Ok(recipe),
            None => Recipe::from_name("f16").map_err(Error::new),
        }
    }
}

/// Names the next step after a conversion to one file, if it runs and has a chat template.
fn tell_of_chat(report: &Report, events: &dyn Events) {
    let Some(path) = report.outputs.first().map(|output| &output.path) else { return };
    let Ok(model) = Model::open(path) else { return };
    let is_embedder = model.metadata().iter().any(|(key, _)| key.ends_with(".pooling_type"));
    let has_graph = Demand::of(&gguf_models::GRAPHS, &model).is_ok();
    if model.get(CHAT_TEMPLATE).is_some() && has_graph && !is_embedder {
        events.status(words!("chat with it: [gguf-eval chat {}]", quoted(&path.display().to_string())));
    }
}

/// Names of tensors that an adapter has changed and that no file holds.
fn merged_and_dropped(checkpoint: &Checkpoint, dropped: &[gguf_layout::Dropped]) -> Vec<String> {
    let is_merged = |name: &str| {
        let stored = checkpoint.tensor(name).and_then(|tensor| tensor.stored.as_ref());
        let description = stored.and_then(|stored| stored.description()).unwrap_or_default();
        description.ends_with("+lora") || description.ends_with("+dora")
    };
    dropped.iter().map(|dropped| dropped.name.clone()).filter(|name| is_merged(name)).collect()
}

/// True if an adapter comes with a tokenizer or chat template that differs from the checkpoint's.
fn has_own_tokenizer(adapters: &[LoraAdapter], checkpoint: &Checkpoint) -> bool {
    let has = |adapter: &LoraAdapter| gguf_checkpoint::own_tokenizer(&adapter.folder, &checkpoint.files);
    adapters.iter().any(|adapter| has(adapter).is_ok_and(|own| !own.is_empty()))
}
