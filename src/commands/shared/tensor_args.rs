//! Options that `gguf-quantize` and `gguf-convert` share: types of tensors, importance matrices, metadata,
//! layers, shards, recipe files, calibration.

use std::path::PathBuf;

use clap::{
    Args, ValueHint,
    builder::{PathBufValueParser, TypedValueParser},
};
use gguf_toolkit::{
    DType, KeyOverride, MissingPolicy, Steps, TensorType,
    calibration::{BudgetOptions, CalibrationOptions},
    calibration_text::BUILT_IN,
    outputs::check_output_name,
    settings::TensorOptions,
    sizes::parse_size,
};

use super::{help::MAIN, values};

/// Parses the path of an output.
pub(in crate::commands) fn output_parser() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|path| check_output_name(&path).map(|()| path))
}

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

/// The options that a recipe file replaces.
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
    /// FILE may also be a GGUF file with the tensor types to use, or its URL (hf://OWNER/MODEL[@REVISION]/FILE or
    /// https://). In a model with another number of layers, types are matched by the relative depth of layers. --imatrix
    /// adds an importance matrix, or gives the new path of one that was moved.
    #[arg(long, value_name = "FILE", hide_short_help = true, conflicts_with_all = ["RuleArgs", "types"])]
    recipe: Option<PathBuf>,
    /// Write all settings and types to a recipe file (JSON).
    ///
    /// Works with --dry-run too.
    #[arg(long, value_name = "FILE", value_parser = output_parser(), hide_short_help = true)]
    save_recipe: Option<PathBuf>,
}

impl QuantizeOptions {
    /// The options for the toolkit.
    pub fn options(&self, recipe: &RecipeArgs) -> TensorOptions {
        let rules = self.rules.clone();
        TensorOptions {
            imatrix: self.imatrix.as_ref().map(PathBuf::from),
            header_slack: self.header_slack,
            tensor_types: rules.tensor_type,
            tensor_type_file: rules.tensor_type_file,
            split_max_size: rules.split_max_size,
            split_max_tensors: rules.split_max_tensors,
            output_tensor_type: rules.output_tensor_type,
            token_embedding_type: rules.token_embedding_type,
            leave_output_tensor: rules.leave_output_tensor,
            pure: rules.pure,
            include_weights: rules.include_weights,
            exclude_weights: rules.exclude_weights,
            missing_imatrix: rules.missing_imatrix.unwrap_or_default(),
            prune_layers: rules.prune_layers,
            override_kv: rules.override_kv,
            recipe: recipe.recipe.clone(),
            save_recipe: recipe.save_recipe.clone(),
        }
    }
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

/// Options of calibration.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Calibration")]
pub struct CalibrationArgs {
    /// Optimize types and rounding on these texts.
    ///
    /// Runs the base model on the texts and chooses types and rounding that minimize the KL divergence from it. The
    /// output file is no larger than without this option. An importance matrix is collected in the same run. Use texts
    /// similar to those that the model will process. `builtin` instead of a file, or no value, is a built-in text with prose in
    /// several languages, code, mathematics and chats. `self` is text drawn from the model itself, which takes longer.
    #[arg(long, value_name = "FILE", num_args = 0.., default_missing_value = BUILT_IN, value_hint = ValueHint::FilePath, help_heading = MAIN)]
    pub calibrate: Vec<PathBuf>,
    /// Use N tokens of the calibration texts in total.
    ///
    /// Tokens are taken from each text in turn.
    #[arg(long, value_name = "N", default_value_t = 16_384, requires = "calibrate", value_parser = clap::value_parser!(u32).range(2048..), hide_short_help = true)]
    pub calibration_tokens: u32,
    /// Keep the collected statistics in DIR and reuse them.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, requires = "calibrate", hide_short_help = true)]
    pub statistics: Option<PathBuf>,
    /// Stop after a step of the rounding, to measure what each is worth.
    ///
    /// `descent` chooses levels, `feedback` adds error feedback, `shrinkage` is chosen on held-out tokens, `scales` also searches
    /// scales, and `full`, the default, fits whole blocks as well.
    #[arg(long, value_name = "STEPS", requires = "calibrate", value_parser = steps(), default_value = Steps::default().name(), hide_possible_values = true, hide = true)]
    pub rounding: Steps,
    /// Measure the output on these texts.
    ///
    /// Default: the rest of the calibration texts, after the tokens that were used.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "calibrate", conflicts_with = "no_verify", hide_short_help = true)]
    pub eval_text: Option<PathBuf>,
    /// Do not use statistics of output gradients.
    ///
    /// The rounding takes about half the time, and the KL divergence is usually up to a tenth larger.
    #[arg(long, requires = "calibrate", hide_short_help = true)]
    pub inputs_only: bool,
    /// Train the scales of blocks against the base after rounding.
    ///
    /// Gradient descent on the KL divergence over the calibration texts, in several passes; training that does not help
    /// on held-out text is discarded. For one file type and for architectures with a backward pass.
    #[arg(long, requires = "calibrate", hide_short_help = true)]
    pub train_scales: bool,
    /// Do not measure the output against the base.
    #[arg(long, requires = "calibrate", hide_short_help = true)]
    pub no_verify: bool,
}

fn steps() -> impl TypedValueParser<Value = Steps> {
    values::choice(Steps::ALL.map(|steps| (steps.name(), "", steps)))
}

impl CalibrationArgs {
    /// The options for the toolkit.
    pub fn options(&self) -> CalibrationOptions {
        CalibrationOptions {
            calibrate: self.calibrate.clone(),
            calibration_tokens: self.calibration_tokens,
            statistics: self.statistics.clone(),
            rounding: self.rounding,
            eval_text: self.eval_text.clone(),
            inputs_only: self.inputs_only,
            train_scales: self.train_scales,
            no_verify: self.no_verify,
        }
    }
}

/// Options of types that are chosen for a size.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Size limits")]
pub struct BudgetArgs {
    /// Keep the tensor types that the file type sets.
    ///
    /// By default, if only one file type is given, --calibrate also chooses the tensor types, without making the file
    /// larger.
    #[arg(long, requires = "calibrate", conflicts_with = "budget", hide_short_help = true)]
    keep_types: bool,
    /// Choose types so that the file is no larger than SIZE.
    ///
    /// SIZE is in bytes or has a unit: K, M, G or KB, MB, GB (powers of 1000), or KiB, MiB, GiB. The file type still
    /// determines which matrices are not quantized, and appears in the default file name. Requires --calibrate or --imatrix.
    /// With --imatrix alone, types are chosen by the errors of the weights, their importance and the roles of the matrices,
    /// without running the model. Diffusion models need neither. The limit does not include the headers of further shards.
    #[arg(long, value_name = "SIZE", group = "budget", value_parser = parse_size, hide_short_help = true)]
    target_size: Option<u64>,
    /// Choose types for at most BITS per weight.
    ///
    /// Requires --calibrate or --imatrix in the same cases as --target-size.
    #[arg(long, value_name = "BITS", group = "budget", value_parser = parse_bits, hide_short_help = true)]
    target_bpw: Option<f64>,
    /// Choose types for a file no larger than a TYPE file.
    ///
    /// Requires --calibrate or --imatrix in the same cases as --target-size.
    #[arg(long, value_name = "TYPE", group = "budget", hide_short_help = true)]
    no_larger_than_type: Option<String>,
    /// Choose only from this comma-separated list of types.
    ///
    /// Default: the types with fast kernels in all runtimes.
    #[arg(long, value_name = "DTYPES", value_delimiter = ',', requires = "budget", value_parser = values::encodable(), hide_possible_values = true, hide_short_help = true)]
    allow_types: Vec<DType>,
}

/// Reads a number of bits per weight.
///
/// # Errors
/// A number out of range.
pub fn parse_bits(text: &str) -> Result<f64, String> {
    let bits = text.parse::<f64>().ok().filter(|bits| (0.5..=32.0).contains(bits));
    bits.ok_or_else(|| "expected a number of bits, for example 4.25".to_owned())
}

impl BudgetArgs {
    /// The options for the toolkit.
    pub fn options(&self) -> BudgetOptions {
        BudgetOptions {
            keep_types: self.keep_types,
            target_size: self.target_size,
            target_bpw: self.target_bpw,
            no_larger_than_type: self.no_larger_than_type.clone(),
            allow_types: self.allow_types.clone(),
            ..BudgetOptions::default()
        }
    }
}
