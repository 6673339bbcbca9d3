//! Settings of conversions and quantizations: types of tensors, importance matrices, metadata, layers, shards, recipe
//! files.

mod options;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

use gguf_container::Endian;
use gguf_conversion::{
    Choice, Importance, Input, KeyOverride, NonFinite, OutputRequest, PlannedFile, Request, RowEncoder,
    Shards,
    imatrix::{Imatrix, MissingPolicy},
    recipes::{Differences, KeepReason, Overrides, Reason, Recipe, TensorFacts, TensorType},
};
use gguf_types::{DType, words};

pub use self::options::{RecipeOptions, RuleOptions, TensorOptions};
use crate::{
    coverage_report::CoverageReport,
    error::Error,
    events::Events,
    hub::HubOptions,
    input_kind,
    input_kind::is_address,
    outputs::check_outputs,
    recipe::open_recipe,
    recipe_file::{ImatrixUse, OutputRecipe, RecipeFile, at_line},
    suggest::suggest,
    text_file,
};

/// The options with their files read, as requests of the library.
#[derive(Debug, Default)]
pub struct Settings {
    /// The settings as in a recipe file, without its choices.
    pub recipe_file: RecipeFile,
    overrides: Overrides,
    imatrix: Option<Imatrix>,
    keys: Vec<KeyOverride>,
    fp8_as: Option<DType>,
    repack: bool,
    repair: bool,
    replayed: Option<PathBuf>,
    /// Patterns of the recipe file, which are parsed for the first tensor that one of them decided about.
    recipe_patterns: OnceLock<Vec<TensorType>>,
    save_to: Option<PathBuf>,
    endian: Endian,
    additions: Option<Additions>,
    /// Types that were chosen under a budget, for each tensor.
    decided: Option<BTreeMap<String, DType>>,
}

/// Additions of a calibration to the settings of a run.
#[derive(Debug, Clone)]
pub struct Additions {
    /// Encoder that improves blocks.
    pub encoder: Arc<dyn RowEncoder + Send>,
    /// Importance matrix of the calibration texts, which is used if none was given.
    pub imatrix: Arc<Imatrix>,
    /// Metadata key that records the calibration.
    pub key: KeyOverride,
}

/// Settings that are not in [`TensorOptions`], because some conversions lack them.
#[derive(Debug, Clone, Copy, Default)]
pub struct OtherSettings {
    /// As many output files as the input has.
    pub keep_split: bool,
    /// Quantized weights may be quantized again.
    pub allow_requantize: bool,
    /// NaNs and infinities are converted.
    pub allow_nonfinite: bool,
    /// The type that weights are rounded to first.
    pub via: Option<DType>,
    /// The type of matrices that came from FP8.
    pub fp8_as: Option<DType>,
    /// A file of a diffusion model is repaired.
    pub repair: bool,
    /// Quantized weights of a checkpoint are kept if a type holds the same values.
    pub repack: bool,
    /// The byte order of the output.
    pub endian: Endian,
}

impl TensorOptions {
    /// Files that are read.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        [&self.imatrix, &self.rules.tensor_type_file].into_iter().flatten().map(PathBuf::as_path)
    }

    /// Reads the files of the options: recipe file, importance matrix, list of tensor types.
    ///
    /// # Errors
    /// A file that cannot be read, or an invalid key.
    pub fn read(
        &self,
        replay: &RecipeOptions,
        other: OtherSettings,
        hub: &HubOptions,
        events: &dyn Events,
    ) -> Result<Settings, Error> {
        let recipe_file = match &replay.recipe {
            Some(path) => {
                let mut recipe = open_recipe(path, hub, events)?;
                if let Some(path) = &self.imatrix {
                    // A recipe that was extracted from a file names no matrix.
                    recipe.imatrix.get_or_insert_default().file = text_of(path)?;
                }
                recipe.allow_requantize |= other.allow_requantize;
                recipe.allow_nonfinite |= other.allow_nonfinite;
                recipe
            }
            None => self.settings(other)?,
        };
        let imatrix = recipe_file.imatrix.as_ref().map(open_imatrix).transpose()?;
        let keys = recipe_file.override_kv.iter().map(|text| KeyOverride::parse(text));
        let mut keys = keys.collect::<Result<Vec<_>, _>>().map_err(Error::usage)?;
        if let Some(n_bytes) = self.header_slack {
            let text = format!("{}=str:{}", gguf_container::SLACK_KEY, " ".repeat(n_bytes as usize));
            keys.push(KeyOverride::parse(&text).map_err(Error::usage)?);
        }
        Ok(Settings {
            overrides: self.rules.overrides()?,
            imatrix: imatrix.filter(|imatrix| !imatrix.entries.is_empty()),
            keys,
            fp8_as: other.fp8_as,
            repack: other.repack,
            repair: other.repair,
            replayed: replay.recipe.clone(),
            recipe_patterns: OnceLock::new(),
            save_to: replay.save_recipe.clone(),
            endian: other.endian,
            additions: None,
            decided: None,
            recipe_file,
        })
    }

    fn settings(&self, other: OtherSettings) -> Result<RecipeFile, Error> {
        let rules = &self.rules;
        let imatrix = self.imatrix.as_deref().map(|path| {
            let (include_weights, exclude_weights) =
                (rules.include_weights.clone(), rules.exclude_weights.clone());
            Ok::<_, Error>(ImatrixUse { file: text_of(path)?, include_weights, exclude_weights })
        });
        Ok(RecipeFile {
            imatrix: imatrix.transpose()?,
            missing_imatrix: rules.missing_imatrix,
            override_kv: rules.override_kv.clone(),
            prune_layers: rules.prune_layers.iter().copied().collect(),
            keep_split: other.keep_split,
            split_max_size: rules.shards.split_max_size,
            split_max_tensors: rules.shards.split_max_tensors,
            allow_requantize: other.allow_requantize,
            allow_nonfinite: other.allow_nonfinite,
            via: other.via,
            ..RecipeFile::default()
        })
    }
}

impl RuleOptions {
    fn overrides(&self) -> Result<Overrides, Error> {
        let mut tensor_types = self.tensor_types.clone();
        if let Some(path) = &self.tensor_type_file {
            let text = text_file::options(path)?;
            tensor_types.extend(TensorType::parse_list(&text).map_err(|error| Error::at(path, error))?);
        }
        Ok(Overrides {
            pure: self.pure,
            leave_output: self.leave_output_tensor,
            output_type: self.output_tensor_type,
            token_embedding_type: self.token_embedding_type,
            tensor_types,
            // The reference ignores these options or aborts; this does what was requested.
            differences: Differences { tensor_types_on_floats: true, checked_options: true },
            ..Overrides::default()
        })
    }
}

impl RecipeOptions {
    /// The recipe file, unless it is at an address.
    pub fn file(&self) -> Option<&Path> {
        self.recipe.as_deref().filter(|path| !is_address(&path.to_string_lossy()))
    }
}

/// A path as metadata and recipe files name it.
fn text_of(path: &Path) -> Result<String, Error> {
    let text = path.to_str().map(str::to_owned);
    text.ok_or_else(|| Error::usage(format_args!("`{}` is not valid UTF-8", path.display())))
}

fn open_imatrix(used: &ImatrixUse) -> Result<Imatrix, Error> {
    let path = Path::new(&used.file);
    let failed = |error| Error::at(path, error);
    let mut imatrix = Imatrix::open(path).map_err(|error| input_kind::not_an_imatrix(path, error))?;
    imatrix.include(&used.include_weights);
    imatrix.exclude(&used.exclude_weights);
    imatrix.check().map_err(failed)?;
    Ok(imatrix)
}

impl Settings {
    /// Settings with only an importance matrix, if there is one, that files record under `name`. Matrices without data get a
    /// larger type.
    pub fn of_imatrix(imatrix: Option<Imatrix>, name: &str) -> Settings {
        let used = imatrix.is_some().then(|| ImatrixUse { file: name.to_owned(), ..ImatrixUse::default() });
        let missing_imatrix = MissingPolicy::RaiseType;
        let recipe_file = RecipeFile { imatrix: used, missing_imatrix, ..RecipeFile::default() };
        Settings { imatrix, recipe_file, ..Settings::default() }
    }

    /// The same settings with a limit of a shard in bytes of tensor data.
    #[must_use]
    pub fn split(mut self, max_bytes: u64) -> Settings {
        self.recipe_file.split_max_size = Some(max_bytes);
        self
    }

    /// Settings with only a byte order.
    pub fn of_byte_order(endian: Endian) -> Settings {
        Settings { endian, ..Settings::default() }
    }

    /// The same settings with the additions of a calibration.
    #[must_use]
    pub fn calibrated(mut self, additions: Additions) -> Settings {
        self.keys.push(additions.key.clone());
        self.additions = Some(additions);
        self
    }

    /// The same settings with another key.
    #[must_use]
    pub fn with_key(mut self, key: KeyOverride) -> Settings {
        self.keys.push(key);
        self
    }

    /// The same settings with a chosen type for each tensor.
    #[must_use]
    pub fn decided(self, dtypes: BTreeMap<String, DType>) -> Settings {
        Settings { decided: Some(dtypes), ..self }
    }

    /// Requested outputs of an input: the types and choices of the recipe file, or `given` by their rules.
    ///
    /// # Errors
    /// A recipe file with an invalid type.
    pub fn outputs<I: Input>(
        &self,
        given: Vec<&'static Recipe>,
        input: &I,
    ) -> Result<Vec<OutputRequest>, Error> {
        if let Some(dtypes) = &self.decided {
            return Ok(given
                .into_iter()
                .map(|recipe| OutputRequest::decided(recipe, dtypes.clone()))
                .collect());
        }
        if self.replayed.is_none() {
            return Ok(given.into_iter().map(OutputRequest::by_rules).collect());
        }
        let replay = |output: &OutputRecipe| {
            let recipe = Recipe::from_name(&output.file_type).map_err(Error::usage)?;
            let dtypes = self.recipe_file.dtypes(output, &input.tensors(recipe));
            Ok(OutputRequest::decided(recipe, dtypes))
        };
        self.recipe_file.outputs.iter().map(replay).collect()
    }

    /// True if a recipe file or a calibration decides about the type of each tensor.
    pub fn decides_types(&self) -> bool {
        self.replayed.is_some() || self.decided.is_some()
    }

    /// Reason for the type of the tensor `name`, with the pattern of a request.
    pub fn reason(&self, choice: &Choice, name: &str) -> String {
        let requested = self.overrides.tensor_types.iter().find(|given| given.pattern.is_match(name));
        match (choice.reason, requested) {
            (Reason::TensorType(_), _) if self.replayed.is_some() => {
                let given = self.recipe_pattern(choice, name);
                let pattern = given.map_or_else(String::new, |given| format!(": `{}`", given.pattern));
                Reason::RecipeFile.to_string() + &pattern
            }
            (Reason::TensorType(_), Some(given)) => format!("requested: `{}`", given.pattern),
            (Reason::RecipeFile, given) if self.decided.is_some() => match given {
                Some(given) if given.dtype == choice.dtype => format!("requested: `{}`", given.pattern),
                _ if choice.dtype.is_quantized() => "target size".to_owned(),
                _ => "kept".to_owned(),
            },
            (reason, _) => reason.to_string(),
        }
    }

    /// The pattern of the recipe file that decided about the tensor `name`.
    fn recipe_pattern(&self, choice: &Choice, name: &str) -> Option<&TensorType> {
        let preferred = choice.fallback.map(|fallback| fallback.preferred);
        let stated = preferred.or(choice.raised_from).unwrap_or(choice.dtype);
        let patterns = self.recipe_patterns.get_or_init(|| {
            let dtypes = self.recipe_file.outputs.iter().flat_map(|output| &output.dtypes);
            let parsed =
                |(key, dtype): (&String, &DType)| TensorType::parse(&format!("{key}={}", dtype.name()));
            dtypes.filter_map(|row| parsed(row).ok()).collect()
        });
        patterns.iter().find(|given| given.dtype == stated && given.pattern.is_match(name))
    }

    /// True if types are fixed for each tensor, by a recipe file or by `--pure`.
    pub fn has_fixed_types(&self) -> bool {
        self.replayed.is_some() || self.overrides.pure
    }

    /// Requested outputs without the types that were chosen for a budget.
    ///
    /// # Errors
    /// As [`Settings::outputs`].
    pub fn plain_outputs<I: Input>(
        &self,
        given: Vec<&'static Recipe>,
        input: &I,
    ) -> Result<Vec<OutputRequest>, Error> {
        match &self.decided {
            Some(_) => Ok(given.into_iter().map(OutputRequest::by_rules).collect()),
            None => self.outputs(given, input),
        }
    }

    /// [`Settings::request`] for files that codecs alone make.
    pub fn plain_request(&self) -> Request<'_> {
        let mut request = self.request();
        request.encoder = None;
        request
    }

    /// Request for all outputs.
    pub fn request(&self) -> Request<'_> {
        let settings = &self.recipe_file;
        let mut request = Request::default();
        request.overrides = self.overrides.clone();
        request.importance = self.importance();
        request.encoder = self.additions.as_ref().map(|additions| &*additions.encoder as &dyn RowEncoder);
        // Calibration runs the model: only what is never executed lacks data.
        request.missing = match settings.missing_imatrix {
            MissingPolicy::Error if self.additions.is_some() => MissingPolicy::RaiseType,
            policy => policy,
        };
        request.prune = settings.prune_layers.iter().copied().collect();
        request.keys.clone_from(&self.keys);
        request.shards = match (settings.split_max_size, settings.split_max_tensors) {
            _ if settings.keep_split => Shards::Kept,
            (None, None) => Shards::One,
            (max_bytes, max_tensors) => Shards::Limited { max_bytes, max_tensors },
        };
        request.allow_requantize = settings.allow_requantize;
        request.via = settings.via;
        // A recipe file has the types that were chosen.
        request.fp8_as = self.fp8_as;
        request.repack = self.repack;
        request.repair = self.repair;
        request.endian = self.endian;
        request
    }

    /// Treatment of values that are not finite.
    pub fn nonfinite(&self) -> NonFinite {
        if self.recipe_file.allow_nonfinite { NonFinite::Allow } else { NonFinite::Refuse }
    }

    /// True if an importance matrix was read.
    pub fn has_imatrix(&self) -> bool {
        self.imatrix.is_some()
    }

    fn importance(&self) -> Option<Importance<'_>> {
        match (&self.recipe_file.imatrix, &self.additions) {
            (Some(used), _) => {
                self.imatrix.as_ref().map(|imatrix| Importance { imatrix, path: Some(&used.file) })
            }
            (None, Some(additions)) => Some(Importance { imatrix: &additions.imatrix, path: None }),
            (None, None) => None,
        }
    }

    /// Warns about patterns that do not match any of these tensors.
    pub fn warn_of_patterns(&self, tensors: &[TensorFacts<'_>], events: &dyn Events) {
        for index in self.overrides.unmatched(tensors) {
            let pattern = self.overrides.tensor_types[index].pattern.as_str();
            let warning = words!("[-tensor-type]: `{}` does not match any tensor", pattern);
            let near = suggest(pattern, tensors.iter().map(|tensor| tensor.name));
            events.warning(match &near[..] {
                [] => warning,
                names => warning + words!("; did you mean `{}`?", names.join("`, `")),
            });
        }
    }

    /// Warns about options for types that decide about no tensor of these files.
    pub fn warn_of_no_effect(
        &self,
        tensors: &[TensorFacts<'_>],
        files: &[(PathBuf, &PlannedFile)],
        events: &dyn Events,
    ) {
        let choices = || files.iter().flat_map(|(_, file)| &file.choices);
        if self.decides_types() || choices().next().is_none() {
            return;
        }
        let is_used = |reason| choices().any(|choice| choice.reason == reason);
        let unmatched = self.overrides.unmatched(tensors);
        for (index, TensorType { pattern, .. }) in self.overrides.tensor_types.iter().enumerate() {
            if unmatched.contains(&index) || is_used(Reason::TensorType(index)) {
                continue;
            }
            let matched = choices().find(|choice| pattern.is_match(tensors[choice.tensor].name));
            let Some(choice) = matched else { continue };
            let (pattern, name) = (pattern.as_str(), tensors[choice.tensor].name);
            events.warning(words!(
                "[-tensor-type]: `{}` has no effect: `{}` and others that match are decided before ({})",
                pattern,
                name,
                self.reason(choice, name)
            ));
        }
        let Overrides { output_type, token_embedding_type, leave_output, .. } = self.overrides;
        for (name, is_given, reason, lacking) in [
            ("output-tensor-type", output_type.is_some(), Reason::OutputOption, "output.weight"),
            (
                "token-embedding-type",
                token_embedding_type.is_some(),
                Reason::TokenEmbeddingOption,
                "token_embd.weight",
            ),
            ("leave-output-tensor", leave_output, Reason::Kept(KeepReason::OutputOnRequest), "output.weight"),
        ] {
            let is_absent = !tensors.iter().any(|tensor| tensor.name == lacking);
            if is_given && is_absent && !is_used(reason) {
                events.warning(words!("[-{}] has no effect: the model has no tensor `{}`", name, lacking));
            }
        }
    }

    /// Reports which tensors the importance matrix covers. Returns the lines for the report of the plan.
    ///
    /// # Errors
    /// A matrix of another model.
    pub fn report_coverage(
        &self,
        tensors: &[TensorFacts<'_>],
        files: &[(PathBuf, &PlannedFile)],
        events: &dyn Events,
    ) -> Result<Vec<String>, Error> {
        let Some(importance) = self.importance() else { return Ok(Vec::new()) };
        let used = self.recipe_file.imatrix.clone().unwrap_or_default();
        let report = CoverageReport::new(importance.imatrix, tensors, files);
        if report.coverage.is_for_another_model() && importance.imatrix.filtered.is_empty() {
            let message =
                "the importance matrix belongs to another model: none of its entries matches a tensor";
            let hint = report.coverage.unused.first().map(|name| format!("one of its entries is `{name}`"));
            return Err(Error::at(Path::new(&used.file), message).hint(hint));
        }
        let (warnings, notes) = (report.warnings(), report.notes());
        warnings.iter().for_each(|line| events.warning(line));
        notes.iter().for_each(|line| events.note(line));
        events.detail(report.summary());
        report.details().iter().for_each(|line| events.detail(line));
        Ok([vec![report.summary()], warnings, notes].concat())
    }

    /// Checks that every name and pattern of a recipe file matches a tensor, and notes the tensors that are not in it.
    ///
    /// # Errors
    /// A name or pattern that does not match any tensor; an invalid pattern; two patterns that give a tensor two types.
    pub fn check_replay(&self, tensors: &[TensorFacts<'_>], events: &dyn Events) -> Result<(), Error> {
        let Some(path) = &self.replayed else { return Ok(()) };
        let wrong = |key: &str, problem: String| {
            // A GGUF file has no lines, and a pipe cannot be read again.
            let has_lines = path.is_file() && !input_kind::is_gguf(path);
            let text = has_lines.then(|| fs::read_to_string(path).ok()).flatten().unwrap_or_default();
            Error::at(path, at_line(&text, key, problem))
        };
        if let (Some(stated), Some(layers)) =
            (self.recipe_file.layers, self.recipe_file.other_layers(tensors))
        {
            events.note(format!(
                "{}: the recipe is for {stated} layers and the model has {layers}: each layer gets the types of the \
                    layer at the same relative depth",
                path.display()
            ));
        }
        let names: BTreeSet<&str> = tensors.iter().map(|tensor| tensor.name).collect();
        for output in &self.recipe_file.outputs {
            let dtypes = self.recipe_file.dtypes(output, tensors);
            let mut patterns = Vec::new();
            for (key, dtype) in dtypes.iter().filter(|(key, _)| !names.contains(key.as_str())) {
                let pattern = TensorType::parse(&format!("{key}={}", dtype.name()));
                patterns.push((key, pattern.map_err(|error| wrong(key, error.to_string()))?));
            }
            let matches = |pattern: &TensorType, name: &str| pattern.pattern.is_match(name);
            let unknown: Vec<&String> = patterns
                .iter()
                .filter(|(_, pattern)| !names.iter().any(|name| matches(pattern, name)))
                .map(|(key, _)| *key)
                .collect();
            if let Some(first) = unknown.first() {
                let more = match unknown.len() - 1 {
                    0 => String::new(),
                    n => format!(" (nor {n} more)"),
                };
                let message = format!("`{first}` does not match any tensor of the model{more}");
                let near = suggest(first, names.iter().copied());
                // A known part belongs to another layer.
                let hint = if near.is_empty() || near.iter().any(|part| first.contains(part)) {
                    "use a recipe that was saved for this model".to_owned()
                } else {
                    format!("similar: `{}`", near.join("`, `"))
                };
                return Err(wrong(first, message).hint([hint]));
            }
            let mut by_rules = Vec::new();
            for name in names.iter().filter(|name| !dtypes.contains_key(**name)) {
                let of_tensor: Vec<_> =
                    patterns.iter().filter(|(_, pattern)| matches(pattern, name)).collect();
                match of_tensor[..] {
                    [] => by_rules.push(*name),
                    [(one, first), ref others @ ..] => {
                        if let Some((other, _)) = others.iter().find(|(_, other)| other.dtype != first.dtype)
                        {
                            let message = format!(
                                "tensor `{name}`: `{one}` and `{other}` both match, with different types"
                            );
                            return Err(wrong(one, message));
                        }
                    }
                }
            }
            if let Some(first) = by_rules.first() {
                events.note(format!(
                    "{}: {} of {} tensors are not in the recipe and get their type from {}, for example `{first}`",
                    path.display(),
                    by_rules.len(),
                    names.len(),
                    output.file_type
                ));
            }
        }
        Ok(())
    }

    /// Path of the recipe file to write.
    pub fn save_to(&self) -> Option<&Path> {
        self.save_to.as_deref()
    }

    /// Writes the recipe file that was requested, if one was.
    ///
    /// # Errors
    /// An existing file without `force`, or a file that cannot be written.
    pub fn save(
        &self,
        tensors: &[TensorFacts<'_>],
        files: &[(PathBuf, &PlannedFile)],
        inputs: &[&Path],
        force: bool,
        events: &dyn Events,
    ) -> Result<(), Error> {
        let Some(path) = &self.save_to else { return Ok(()) };
        check_outputs(&[path], inputs, force)?;
        self.recipe_file.clone().with_choices(tensors, files).save(path)?;
        events.status(format!("wrote {}", path.display()));
        Ok(())
    }
}
