//! Options that `gguf-quantize` and `gguf-convert` share: types of tensors, importance matrices, metadata,
//! layers, shards, recipe files.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    time::Instant,
};

use clap::Args;
use convert::{
    Importance, KeyOverride, NonFinite, OutputRequest, PlannedFile, Request, Shards,
    imatrix::{Imatrix, MissingPolicy},
    recipes::{Differences, Overrides, Recipe, TensorFacts, TensorType},
};
use gguf::Endian;
use tensor::DType;

use crate::{
    commands::shared::{
        calibration::{BudgetArgs, Calibration},
        coverage_report::CoverageReport,
        help::MAIN,
        input_kind,
        outputs::check_outputs,
        recipe_file::{ImatrixUse, OutputRecipe, RecipeFile},
        sizes::parse_size,
        suggest::suggest,
        text_file, values,
        write::output_parser,
    },
    failure::Failure,
    ui::Ui,
};

/// Options of `gguf-convert` and `gguf-quantize` that decide about tensors, metadata and shards.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Tensors, metadata and shards")]
pub struct QuantizeOptions {
    /// Use the importance matrix in FILE.
    ///
    /// GGUF files and the older .dat format are supported.
    #[arg(long, value_name = "FILE", help_heading = MAIN)]
    imatrix: Option<String>,
    #[command(flatten)]
    rules: RuleArgs,
    /// Reserve BYTES of free space in the header.
    ///
    /// `gguf-inspect set` can then change metadata without rewriting the file. Default: 0.
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(1..=1 << 30), hide_short_help = true)]
    header_slack: Option<u64>,
}

/// The options that a recipe file takes the place of.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Tensors, metadata and shards")]
struct RuleArgs {
    /// Set the type of tensors that match REGEX.
    ///
    /// Repeat the option for several rules. The first match wins.
    #[arg(long, value_name = "REGEX=DTYPE", value_parser = parse_tensor_type, help_heading = MAIN)]
    tensor_type: Vec<TensorType>,
    /// Limit each shard to SIZE of tensor data.
    ///
    /// SIZE is in bytes or has a unit: K, M, G or KB, MB, GB (powers of 1000), or KiB, MiB, GiB.
    #[arg(long, value_name = "SIZE", value_parser = parse_size, help_heading = MAIN)]
    split_max_size: Option<u64>,
    /// Limit each shard to N tensors.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), hide_short_help = true)]
    split_max_tensors: Option<u64>,
    /// Read tensor types from FILE.
    ///
    /// The file contains REGEX=DTYPE entries, separated by whitespace.
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    tensor_type_file: Option<PathBuf>,
    /// Set the type of output.weight.
    #[arg(long, value_name = "DTYPE", value_parser = values::encodable(), hide_possible_values = true, hide_short_help = true)]
    output_tensor_type: Option<DType>,
    /// Set the type of the token embeddings.
    #[arg(long, value_name = "DTYPE", value_parser = values::encodable(), hide_possible_values = true, hide_short_help = true)]
    token_embedding_type: Option<DType>,
    /// Do not quantize output.weight.
    #[arg(long, hide_short_help = true)]
    leave_output_tensor: bool,
    /// Quantize all tensors to the main type of the file type.
    #[arg(long, hide_short_help = true)]
    pure: bool,
    /// Use the importance matrix only for tensors whose name contains NAME.
    #[arg(
        long,
        value_name = "NAME",
        requires = "imatrix",
        conflicts_with = "exclude_weights",
        hide_short_help = true
    )]
    include_weights: Vec<String>,
    /// Ignore the importance matrix for tensors whose name contains NAME.
    #[arg(long, value_name = "NAME", requires = "imatrix", hide_short_help = true)]
    exclude_weights: Vec<String>,
    /// Choose what to do about tensors without importance data.
    ///
    /// Applies to types that need an importance matrix. `error` (the default) fails, `ones` gives all columns the same
    /// weight, `neighbour` uses the data of the nearest layer, and `raise-type` uses the next larger type that does
    /// not need importance data.
    #[arg(long, value_name = "POLICY", value_parser = values::missing_policy(), hide_possible_values = true, hide_short_help = true)]
    missing_imatrix: Option<MissingPolicy>,
    /// Remove these layers, for example 20,21.
    ///
    /// Layers are counted from 0.
    #[arg(long, value_name = "LAYERS", value_delimiter = ',', hide_short_help = true)]
    prune_layers: Vec<u32>,
    /// Set a metadata key (repeatable).
    ///
    /// TYPE is int, float, bool, str or a GGUF type: u8 to i64, f32, f64.
    #[arg(long, value_name = "KEY=TYPE:VALUE", value_parser = parse_key, hide_short_help = true)]
    override_kv: Vec<String>,
}

/// Options about recipe files.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Tensors, metadata and shards")]
pub struct RecipeArgs {
    /// Reproduce the settings and types of a recipe file.
    ///
    /// If the recipe names an importance matrix that was moved, --imatrix gives its new path. If the recipe does not
    /// name one, --imatrix adds one.
    #[arg(long, value_name = "FILE", hide_short_help = true, conflicts_with_all = ["RuleArgs", "types"])]
    recipe: Option<PathBuf>,
    /// Write all settings and types to a recipe file (JSON).
    ///
    /// Works with --dry-run too.
    #[arg(long, value_name = "FILE", value_parser = output_parser(), hide_short_help = true)]
    save_recipe: Option<PathBuf>,
}

impl RecipeArgs {
    /// True if types come from a recipe file.
    pub fn is_given(&self) -> bool {
        self.recipe.is_some()
    }
}

fn parse_tensor_type(text: &str) -> Result<TensorType, String> {
    TensorType::parse(text).map_err(|error| error.to_string())
}

fn parse_key(text: &str) -> Result<String, String> {
    KeyOverride::parse(text).map(|_| text.to_owned()).map_err(|error| error.to_string())
}

/// The options with their files read, as requests of the library.
#[derive(Debug, Default)]
pub struct Settings {
    /// The same as it would stand in a recipe file, but for the choices.
    pub recipe_file: RecipeFile,
    overrides: Overrides,
    imatrix: Option<Imatrix>,
    keys: Vec<KeyOverride>,
    fp8_as: Option<DType>,
    repack: bool,
    replayed: Option<PathBuf>,
    save_to: Option<PathBuf>,
    endian: Endian,
    calibration: Option<Calibration>,
    /// Types that were chosen under a budget, for each tensor.
    decided: Option<BTreeMap<String, DType>>,
}

/// Settings that only one of the programs has, or that both have elsewhere.
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
    /// Codes of a checkpoint are kept where a type holds the same values.
    pub repack: bool,
    /// The byte order of the output.
    pub endian: Endian,
}

/// Byte order for `--big-endian`.
pub fn byte_order(big_endian: bool) -> Endian {
    if big_endian { Endian::Big } else { Endian::Little }
}

impl QuantizeOptions {
    /// Files that are read.
    pub fn files<'a>(&'a self, recipe: &'a RecipeArgs) -> Vec<&'a Path> {
        let imatrix = self.imatrix.as_deref().map(Path::new);
        let files = [imatrix, recipe.recipe.as_deref(), self.rules.tensor_type_file.as_deref()];
        files.into_iter().flatten().collect()
    }

    /// Reads what the options name: recipe file, importance matrix, list of tensor types.
    ///
    /// # Errors
    /// What is wrong with one of the files.
    pub fn read(&self, recipe: &RecipeArgs, other: OtherSettings) -> Result<Settings, Failure> {
        let settings = match &recipe.recipe {
            Some(path) => {
                let mut settings = RecipeFile::open(path)?;
                if let Some(path) = &self.imatrix {
                    // A recipe that was taken out of a file names none.
                    settings.imatrix.get_or_insert_default().file.clone_from(path);
                }
                settings.allow_requantize |= other.allow_requantize;
                settings.allow_nonfinite |= other.allow_nonfinite;
                settings
            }
            None => self.settings(other),
        };
        let imatrix = settings.imatrix.as_ref().map(open_imatrix).transpose()?;
        let keys = settings.override_kv.iter().map(|text| KeyOverride::parse(text));
        let mut keys = keys.collect::<Result<Vec<_>, _>>().map_err(Failure::usage)?;
        if let Some(n_bytes) = self.header_slack {
            let text = format!("{}=str:{}", gguf::SLACK_KEY, " ".repeat(n_bytes as usize));
            keys.push(KeyOverride::parse(&text).map_err(Failure::usage)?);
        }
        Ok(Settings {
            overrides: self.overrides()?,
            imatrix: imatrix.filter(|imatrix| !imatrix.entries.is_empty()),
            keys,
            fp8_as: other.fp8_as,
            repack: other.repack,
            replayed: recipe.recipe.clone(),
            save_to: recipe.save_recipe.clone(),
            endian: other.endian,
            calibration: None,
            decided: None,
            recipe_file: settings,
        })
    }

    fn settings(&self, other: OtherSettings) -> RecipeFile {
        let imatrix = self.imatrix.as_ref().map(|file| ImatrixUse {
            file: file.clone(),
            include_weights: self.rules.include_weights.clone(),
            exclude_weights: self.rules.exclude_weights.clone(),
        });
        RecipeFile {
            imatrix,
            missing_imatrix: self.rules.missing_imatrix.unwrap_or_default(),
            override_kv: self.rules.override_kv.clone(),
            prune_layers: self.rules.prune_layers.iter().copied().collect(),
            keep_split: other.keep_split,
            split_max_size: self.rules.split_max_size,
            split_max_tensors: self.rules.split_max_tensors,
            allow_requantize: other.allow_requantize,
            allow_nonfinite: other.allow_nonfinite,
            via: other.via,
            ..RecipeFile::default()
        }
    }

    fn overrides(&self) -> Result<Overrides, Failure> {
        let mut tensor_types = self.rules.tensor_type.clone();
        if let Some(path) = &self.rules.tensor_type_file {
            let text = text_file::options(path)?;
            tensor_types.extend(TensorType::parse_list(&text).map_err(|error| Failure::at(path, error))?);
        }
        Ok(Overrides {
            pure: self.rules.pure,
            leave_output: self.rules.leave_output_tensor,
            output_type: self.rules.output_tensor_type,
            token_embedding_type: self.rules.token_embedding_type,
            tensor_types,
            // Where the reference ignores an option or aborts, do what was requested.
            differences: Differences { tensor_types_on_floats: true, checked_options: true },
            ..Overrides::default()
        })
    }
}

fn open_imatrix(used: &ImatrixUse) -> Result<Imatrix, Failure> {
    let path = Path::new(&used.file);
    let failed = |error| Failure::at(path, error);
    let mut imatrix = Imatrix::open(path).map_err(|error| input_kind::not_an_imatrix(path, error))?;
    imatrix.include(&used.include_weights);
    imatrix.exclude(&used.exclude_weights);
    imatrix.check_finite().map_err(failed)?;
    Ok(imatrix)
}

impl Settings {
    /// Nothing asked for but a byte order.
    pub fn of_byte_order(endian: Endian) -> Settings {
        Settings { endian, ..Settings::default() }
    }

    /// The same with a base whose text has been read: blocks are made better by it, and where no importance matrix was given, its
    /// own is used.
    ///
    /// # Errors
    /// None that is known.
    pub fn calibrated(mut self, calibration: Calibration) -> Result<Settings, Failure> {
        self.keys.push(calibration.key()?);
        self.calibration = Some(calibration);
        Ok(self)
    }

    /// The same with types chosen under a budget.
    ///
    /// # Errors
    /// As the choice.
    pub fn with_budget(
        mut self,
        budget: &BudgetArgs,
        recipe: &'static Recipe,
        ui: &Ui,
    ) -> Result<Settings, Failure> {
        let Some(calibration) = &self.calibration else { return Ok(self) };
        let began = Instant::now();
        let Some((dtypes, chosen)) = calibration.choose_types(budget, recipe, &self, ui)? else {
            return Ok(self);
        };
        self.decided = Some(dtypes);
        if let Some(calibration) = &mut self.calibration {
            calibration.chose(chosen, began.elapsed());
        }
        Ok(self)
    }

    /// The base whose text has been read.
    pub fn calibration(&self) -> Option<&Calibration> {
        self.calibration.as_ref()
    }

    /// Requested outputs: the types and choices of the recipe file, or `given` by their rules.
    ///
    /// # Errors
    /// A recipe file with an invalid type.
    pub fn outputs(&self, given: Vec<&'static Recipe>) -> Result<Vec<OutputRequest>, Failure> {
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
            let recipe = Recipe::from_name(&output.file_type).map_err(Failure::usage)?;
            Ok(OutputRequest::decided(recipe, output.dtypes.clone()))
        };
        self.recipe_file.outputs.iter().map(replay).collect()
    }

    /// True if types are fixed for each tensor, by a recipe file or by `--pure`.
    pub fn has_fixed_types(&self) -> bool {
        self.replayed.is_some() || self.overrides.pure
    }

    /// Requested outputs without the types that were chosen for a budget.
    ///
    /// # Errors
    /// As [`Settings::outputs`].
    pub fn plain_outputs(&self, given: Vec<&'static Recipe>) -> Result<Vec<OutputRequest>, Failure> {
        match &self.decided {
            Some(_) => Ok(given.into_iter().map(OutputRequest::by_rules).collect()),
            None => self.outputs(given),
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
        request.encoder = self.calibration.as_ref().map(Calibration::encoder);
        // Calibration runs the model: only what is never executed lacks data.
        request.missing = match settings.missing_imatrix {
            MissingPolicy::Error if self.calibration.is_some() => MissingPolicy::RaiseType,
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
        request.endian = self.endian;
        request
    }

    /// Treatment of values that are not finite.
    pub fn nonfinite(&self) -> NonFinite {
        if self.recipe_file.allow_nonfinite { NonFinite::Allow } else { NonFinite::Refuse }
    }

    fn importance(&self) -> Option<Importance<'_>> {
        match (&self.recipe_file.imatrix, &self.calibration) {
            (Some(used), _) => {
                self.imatrix.as_ref().map(|imatrix| Importance { imatrix, path: Some(&used.file) })
            }
            (None, Some(calibration)) => Some(Importance { imatrix: calibration.imatrix(), path: None }),
            (None, None) => None,
        }
    }

    /// Warns of patterns that say nothing about these tensors.
    pub fn warn_of_patterns(&self, tensors: &[TensorFacts<'_>], ui: &Ui) {
        for index in self.overrides.unmatched(tensors) {
            let pattern = self.overrides.tensor_types[index].pattern.as_str();
            let warning = format!("--tensor-type: `{pattern}` does not match any tensor");
            let near = suggest(pattern, tensors.iter().map(|tensor| tensor.name));
            ui.warning(&match &near[..] {
                [] => warning,
                names => format!("{warning}; did you mean `{}`?", names.join("`, `")),
            });
        }
    }

    /// Says what the importance matrix knows about the tensors that are going to be encoded. Gives
    /// what a report of the plan should hold.
    ///
    /// # Errors
    /// A matrix of another model.
    pub fn report_coverage(
        &self,
        tensors: &[TensorFacts<'_>],
        files: &[(PathBuf, &PlannedFile)],
        ui: &Ui,
    ) -> Result<Vec<String>, Failure> {
        let Some(importance) = self.importance() else { return Ok(Vec::new()) };
        let used = self.recipe_file.imatrix.clone().unwrap_or_default();
        let report = CoverageReport::new(importance.imatrix, tensors, files);
        let is_filtered = !(used.include_weights.is_empty() && used.exclude_weights.is_empty());
        if report.coverage.is_for_another_model() && !is_filtered {
            let message =
                "the importance matrix belongs to another model: none of its entries matches a tensor";
            let hint = report.coverage.unused.first().map(|name| format!("one of its entries is `{name}`"));
            return Err(Failure::at(Path::new(&used.file), message).hint(hint));
        }
        let warnings = report.warnings();
        warnings.iter().for_each(|line| ui.warning(line));
        ui.detail(&report.summary());
        report.details().iter().for_each(|line| ui.detail(line));
        Ok([vec![report.summary()], warnings].concat())
    }

    /// Checks that every name and pattern of a recipe file is of some tensor, and notes the tensors that it leaves to the rules.
    ///
    /// # Errors
    /// A name or pattern of no tensor; an invalid pattern; two patterns that give a tensor two types.
    pub fn check_replay(&self, tensors: &[TensorFacts<'_>], ui: &Ui) -> Result<(), Failure> {
        let Some(path) = &self.replayed else { return Ok(()) };
        let names: BTreeSet<&str> = tensors.iter().map(|tensor| tensor.name).collect();
        for output in &self.recipe_file.outputs {
            let mut patterns = Vec::new();
            for (key, dtype) in output.dtypes.iter().filter(|(key, _)| !names.contains(key.as_str())) {
                let pattern = TensorType::parse(&format!("{key}={}", dtype.name()));
                patterns.push((key, pattern.map_err(|error| Failure::at(path, error))?));
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
                return Err(Failure::at(path, message).hint(["use a recipe that was saved for this model"]));
            }
            let mut by_rules = Vec::new();
            for name in names.iter().filter(|name| !output.dtypes.contains_key(**name)) {
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
                            return Err(Failure::at(path, message));
                        }
                    }
                }
            }
            if let Some(first) = by_rules.first() {
                ui.note(&format!(
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

    /// Writes the recipe file that was requested, if one was.
    ///
    /// # Errors
    /// A file is there and `force` is not given; the system's refusal.
    pub fn save(
        &self,
        tensors: &[TensorFacts<'_>],
        files: &[(PathBuf, &PlannedFile)],
        inputs: &[&Path],
        force: bool,
        ui: &Ui,
    ) -> Result<(), Failure> {
        let Some(path) = &self.save_to else { return Ok(()) };
        check_outputs(&[path], inputs, force)?;
        self.recipe_file.clone().with_choices(tensors, files).save(path)?;
        ui.status(&format!("wrote {}", path.display()));
        Ok(())
    }
}
