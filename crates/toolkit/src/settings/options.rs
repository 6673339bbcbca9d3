//! Options for tensors, metadata, shards and recipe files.

use std::path::PathBuf;

#[cfg(feature = "clap")]
use gguf_conversion::KeyOverride;
use gguf_conversion::{imatrix::MissingPolicy, recipes::TensorType};
use gguf_types::DType;
use serde::{Deserialize, Serialize};

use crate::split::ShardOptions;

/// Options for tensors, metadata and shards.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args), command(next_help_heading = "Tensors, metadata and shards"))]
#[serde(default, deny_unknown_fields)]
pub struct TensorOptions {
    /// Use the importance matrix in FILE.
    ///
    /// GGUF files and the older .dat format are supported.
    #[cfg_attr(feature = "clap", arg(long, value_name = "FILE", help_heading = crate::arguments::MAIN))]
    #[serde(with = "crate::path_json::optional")]
    pub imatrix: Option<PathBuf>,
    /// The options that a recipe file replaces.
    #[cfg_attr(feature = "clap", command(flatten))]
    pub rules: RuleOptions,
    /// Reserve BYTES of free space in the header.
    ///
    /// `gguf-inspect set` can then change metadata without rewriting the file. Default: 0.
    #[cfg_attr(feature = "clap", arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(1..=1 << 30), hide_short_help = true))]
    pub header_slack: Option<u64>,
}

/// The options that a recipe file replaces.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args), command(next_help_heading = "Tensors, metadata and shards"))]
#[serde(default, deny_unknown_fields)]
pub struct RuleOptions {
    /// Set the type of tensors that match REGEX.
    ///
    /// Repeat the option for several rules. The first match wins; in a recipe file, whose keys have no order, two patterns that
    /// give one tensor different types are an error.
    #[cfg_attr(feature = "clap", arg(long = "tensor-type", value_name = "REGEX=DTYPE", value_parser = <TensorType as crate::by_name::Named>::from_name, help_heading = crate::arguments::MAIN))]
    #[serde(with = "crate::by_name::list")]
    pub tensor_types: Vec<TensorType>,
    /// Limits of shards.
    #[cfg_attr(feature = "clap", command(flatten))]
    pub shards: ShardOptions,
    /// Read tensor types from FILE.
    ///
    /// The file contains REGEX=DTYPE entries, separated by whitespace.
    #[cfg_attr(feature = "clap", arg(long, value_name = "FILE", hide_short_help = true))]
    #[serde(with = "crate::path_json::optional")]
    pub tensor_type_file: Option<PathBuf>,
    /// Set the type of output.weight.
    #[cfg_attr(feature = "clap", arg(long, value_name = "DTYPE", value_parser = crate::arguments::encodable(), hide_possible_values = true, hide_short_help = true))]
    #[serde(with = "crate::by_name::optional")]
    pub output_tensor_type: Option<DType>,
    /// Set the type of the token embeddings.
    #[cfg_attr(feature = "clap", arg(long, value_name = "DTYPE", value_parser = crate::arguments::encodable(), hide_possible_values = true, hide_short_help = true))]
    #[serde(with = "crate::by_name::optional")]
    pub token_embedding_type: Option<DType>,
    /// Do not quantize output.weight.
    #[cfg_attr(feature = "clap", arg(long, hide_short_help = true))]
    pub leave_output_tensor: bool,
    /// Quantize all tensors to the main type of the file type.
    #[cfg_attr(feature = "clap", arg(long, hide_short_help = true))]
    pub pure: bool,
    /// Use the importance matrix only for tensors whose name contains NAME.
    #[cfg_attr(
        feature = "clap",
        arg(
            long,
            value_name = "NAME",
            requires = "imatrix",
            conflicts_with = "exclude_weights",
            hide_short_help = true
        )
    )]
    pub include_weights: Vec<String>,
    /// Ignore the importance matrix for tensors whose name contains NAME.
    #[cfg_attr(
        feature = "clap",
        arg(long, value_name = "NAME", requires = "imatrix", hide_short_help = true)
    )]
    pub exclude_weights: Vec<String>,
    /// Choose what to do about tensors without importance data.
    ///
    /// Applies to types that need an importance matrix. `error` (the default) fails, `ones` gives all columns the same
    /// weight, `neighbour` uses the data of the nearest layer, and `raise-type` uses the next larger type that does
    /// not need importance data.
    #[cfg_attr(feature = "clap", arg(long, value_name = "POLICY", value_parser = crate::arguments::missing_policy(), default_value = "error", hide_default_value = true, hide_possible_values = true, hide_short_help = true))]
    #[serde(with = "crate::by_name::single")]
    pub missing_imatrix: MissingPolicy,
    /// Remove these layers, for example 20,21.
    ///
    /// Layers are counted from 0.
    #[cfg_attr(
        feature = "clap",
        arg(long, value_name = "LAYERS", value_delimiter = ',', hide_short_help = true)
    )]
    pub prune_layers: Vec<u32>,
    /// Set a metadata key (repeatable).
    ///
    /// TYPE is int, float, bool, str or a GGUF type: u8 to i64, f32, f64.
    #[cfg_attr(feature = "clap", arg(long, value_name = "KEY=TYPE:VALUE", value_parser = parse_key, hide_short_help = true))]
    pub override_kv: Vec<String>,
}

/// Options about recipe files.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args), command(next_help_heading = "Tensors, metadata and shards"))]
#[serde(default, deny_unknown_fields)]
pub struct RecipeOptions {
    /// Reproduce the settings and types of a recipe file.
    ///
    /// FILE may also be a GGUF file with the tensor types to use, or its URL (hf://OWNER/MODEL[@REVISION]/FILE or
    /// https://). In a model with another number of layers, types are matched by the relative depth of layers. --imatrix
    /// adds an importance matrix, or gives the new path of one that was moved.
    #[expect(rustdoc::broken_intra_doc_links, reason = "the text is also the help")]
    #[cfg_attr(feature = "clap", arg(long, value_name = "FILE", hide_short_help = true, conflicts_with_all = replaced()))]
    #[serde(with = "crate::path_json::optional")]
    pub recipe: Option<PathBuf>,
    /// Write all settings and types to a recipe file (JSON).
    ///
    /// Works with --dry-run too.
    #[cfg_attr(feature = "clap", arg(long, value_name = "FILE", value_parser = crate::arguments::output_path(), hide_short_help = true))]
    #[serde(with = "crate::path_json::optional")]
    pub save_recipe: Option<PathBuf>,
}

/// Options that a recipe file replaces. clap has no group for [`RuleOptions`], because it has a flattened field.
#[cfg(feature = "clap")]
fn replaced() -> Vec<clap::Id> {
    let rules = <RuleOptions as clap::Args>::augment_args(clap::Command::default());
    rules.get_arguments().map(|arg| arg.get_id().clone()).chain(["types".into()]).collect()
}

#[cfg(feature = "clap")]
fn parse_key(text: &str) -> Result<String, String> {
    KeyOverride::parse(text).map(|_| text.to_owned()).map_err(|error| error.to_string())
}
