//! Every way in which a conversion can fail.

use std::{path::PathBuf, time::SystemTime};

use gguf_types::{DType, and_more};

use crate::unfinished::Unfinished;

/// Errors of a conversion. The caller that opened the input adds its path once.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages explain the fields")]
pub enum Error {
    /// The checkpoint cannot be read.
    #[error(transparent)]
    Source(#[from] gguf_checkpoint::Error),
    /// Downloaded weights are not those of the Hub.
    #[error(transparent)]
    Download(#[from] Box<gguf_checkpoint::hub::HubError>),
    /// An adapter cannot be merged into the checkpoint.
    #[error("adapter `{}`: {error}", folder.display())]
    Merge { folder: PathBuf, error: Box<crate::merge::MergeError> },
    /// An adapter file cannot be merged into a GGUF file.
    #[error("adapter `{}`: {error}", path.display())]
    AdapterFile { path: PathBuf, error: gguf_container::Error },
    /// An adapter cannot become an adapter file.
    #[error(transparent)]
    Adapter(Box<crate::merge::MergeError>),
    /// A file from before GGUF cannot be read.
    #[error(transparent)]
    Legacy(#[from] gguf_checkpoint::LegacyError),
    /// The checkpoint does not make a model.
    #[error(transparent)]
    Arch(#[from] gguf_layout::ArchError),
    /// No dtypes could be chosen.
    #[error(transparent)]
    Recipe(#[from] crate::recipes::RecipeError),
    /// A model that another runtime's format does not hold.
    #[error("{format}: expected a model of class {}, found {}", listed(expected), class_or_none(found))]
    ForeignClass {
        format: &'static str,
        /// The class that the config names; empty if it names none.
        found: String,
        /// Classes that the format holds.
        expected: Vec<&'static str>,
    },
    /// A file type that another runtime's format does not have.
    #[error("{format}: type `{found}` is not supported; expected one of {}", expected.join(", "))]
    ForeignType { format: &'static str, found: String, expected: Vec<&'static str> },
    /// Rows that are not whole blocks, in a format that allows no other type for them.
    #[error("{format}: tensor `{tensor}`: rows of {row_elems} elements are not whole blocks of {dtype}")]
    ForeignRows { format: &'static str, tensor: String, row_elems: u64, dtype: DType },
    /// The recipe that only copies has nothing to copy from a checkpoint.
    #[error("type `COPY` needs a GGUF file as input, not a checkpoint")]
    CopyOfCheckpoint,
    /// A tensor gets a dtype that is no good without an importance matrix.
    #[error("{recipe}: tensor `{tensor}`: type {dtype} needs an importance matrix")]
    NeedsImatrix {
        tensor: String,
        dtype: DType,
        recipe: &'static str,
        /// True for a diffusion model, which does not process text.
        is_diffusion: bool,
    },
    /// An importance matrix that says nothing about a tensor that needs it.
    #[error(
        "tensor `{tensor}`: type {dtype} needs importance data, but the importance matrix has no entry \
        for the tensor"
    )]
    NotInImatrix {
        tensor: String,
        dtype: DType,
        /// The MTP layer that it belongs to.
        mtp_layer: Option<u64>,
        /// True for a stack of experts.
        is_expert: bool,
    },
    /// An importance matrix is wrong, or of another model.
    #[error("importance matrix: {0}")]
    Imatrix(crate::imatrix::ImatrixError),
    /// Weights that are quantized already.
    #[error("tensor `{tensor}` is already quantized: {from} would become {to}")]
    Requantize {
        tensor: String,
        from: DType,
        /// The dtype that it would get.
        to: DType,
    },
    /// A row encoder failed to improve a tensor's blocks.
    #[error("tensor `{tensor}`: {problem}")]
    RowEncoder { tensor: String, problem: Box<dyn std::error::Error + Send + Sync> },
    /// A layer to be left out that is not there.
    #[error("layer {layer} cannot be removed: the model has only {n_layers} layers, counted from 0")]
    NoSuchLayer { layer: u32, n_layers: usize },
    /// All layers are to be left out.
    #[error("all {n_layers} layers would be removed")]
    NoLayerLeft { n_layers: usize },
    /// Invalid `KEY=TYPE:VALUE`.
    #[error("`{text}`: expected KEY=TYPE:VALUE: {problem}")]
    KeyOverride { text: String, problem: String },
    /// A number that the type of its key does not hold.
    #[error("metadata key `{key}`: {value} is not a valid {type_name}")]
    KeyOverrideRange {
        key: String,
        value: String,
        /// The type that the key has.
        type_name: &'static str,
    },
    /// More shards than their numbers can count.
    #[error("{count} shards exceed the limit of 65535")]
    TooManyShards { count: usize },
    /// The output would replace what is read.
    #[error("output `{}` is also the input", path.display())]
    OutputIsInput { path: PathBuf },
    /// A shape that ggml does not have.
    #[error("tensor `{tensor}`: {source}")]
    Shape { tensor: String, source: gguf_types::ShapeError },
    /// Rows of a source tensor cannot be read.
    #[error(transparent)]
    Read(gguf_checkpoint::ReadError),
    /// A GGUF file, a plan or an output is wrong.
    #[error(transparent)]
    Gguf(#[from] gguf_container::Error),
    /// Rows cannot be encoded or decoded.
    #[error("tensor `{tensor}`: {error}")]
    Encode { tensor: String, error: gguf_quant::CodecError },
    /// A layout names a source tensor that the checkpoint does not have.
    #[error("missing tensor `{name}`, which is needed for `{wanted_by}`")]
    NoSuchTensor {
        name: String,
        /// The output tensor that needs it.
        wanted_by: String,
    },
    /// Source and output tensor do not have the same rows.
    #[error("tensor `{tensor}`: `{source_names}`: expected {expected} {unit}, found {found}")]
    RowsDiffer { tensor: String, source_names: String, found: u64, expected: u64, unit: &'static str },
    /// A weight that is not a number, or infinite.
    #[error("tensor `{tensor}`: row {row}, column {column} is {value}")]
    NonFinite {
        tensor: String,
        /// The row, from 0, in the order of the output.
        row: u64,
        column: u64,
        value: f32,
    },
    /// A value that the target type turns into infinity.
    #[error("tensor `{tensor}`: row {row}, column {column}: {value} is out of range for {dtype}")]
    Overflow {
        tensor: String,
        /// The row, from 0, in the order of the output.
        row: u64,
        column: u64,
        value: f32,
        dtype: DType,
    },
    /// The run was stopped from outside.
    #[error("interrupted; no output was written under its final name")]
    Cancelled,
    /// Another process is writing the output.
    #[error("`{}` is being written by process {process} on `{host}`", path.display())]
    Busy {
        path: PathBuf,
        /// The number of the process.
        process: u32,
        /// The name of its machine.
        host: String,
        began: Option<SystemTime>,
    },
    /// An earlier run to the same output was stopped, and what it did would be lost.
    #[error(
        "`{}`: an earlier run was interrupted after {} of {} bytes",
        path.display(), run.done_bytes, run.total_bytes
    )]
    Unfinished { path: PathBuf, run: Box<Unfinished> },
    /// An earlier run was made of something else, so that its rows do not fit.
    #[error("`{}`: cannot resume the earlier run: {}", path.display(), differences.join("; "))]
    NotResumable {
        path: PathBuf,
        differences: Vec<String>,
        /// Changes of options that make this run the earlier one.
        advice: Option<String>,
        run: Box<Unfinished>,
    },
    /// A part was made by another plan.
    #[error("`{}` belongs to another plan: {}", path.display(), differences.join("; "))]
    OtherPlan {
        /// The journal of the part.
        path: PathBuf,
        differences: Vec<String>,
    },
    /// Parts of one output were cut into different numbers.
    #[error("`{}` belongs to a run with {found} parts, expected {expected}", path.display())]
    PartsDiffer {
        /// The existing journal of a part.
        path: PathBuf,
        found: u32,
        /// The number that is wanted.
        expected: u32,
    },
    /// No part of an output is there.
    #[error("`{}`: no parts found", path.display())]
    NoParts { path: PathBuf },
    /// Parts are not there, or not whole.
    #[error("`{}`: {}", path.display(), missing_parts(missing, *count))]
    PartsMissing { path: PathBuf, count: u32, missing: Vec<(u32, String)> },
    /// All parts are whole and leave something out: they were made by programs that share otherwise.
    #[error("tensor `{tensor}`: no part contains the rows from {row} on")]
    PartGap {
        tensor: String,
        /// The first row that is missing.
        row: u64,
    },
    /// The bytes of a part are not those that its journal speaks of.
    #[error(
        "part `{}`: rows {} to {} of tensor `{tensor}` were changed after they were written",
        path.display(), rows.start, rows.end
    )]
    PartDamaged { path: PathBuf, tensor: String, rows: std::ops::Range<u64> },
    /// The output would lie in the folder that is read.
    #[error("output `{}` is inside the input folder", path.display())]
    OutputInsideInput {
        /// The output as it would be written.
        path: PathBuf,
    },
    /// The folder of the output is not there.
    #[error("folder `{}` does not exist", folder.display())]
    NoFolder { folder: PathBuf },
    /// The folder of an output is a file.
    #[error("`{}` is not a folder", folder.display())]
    NotAFolder { folder: PathBuf },
    /// A name in braces that is not known.
    #[error("unknown placeholder `{{{name}}}` in the output name")]
    UnknownPlaceholder { name: String },
    /// Several types that would all get the same name.
    #[error("{n_types} types would be written to the same file `{}`", path.display())]
    OneNameForMany {
        /// Number of types to make.
        n_types: usize,
        path: PathBuf,
    },
}

impl Error {
    /// Advice for the user, independent of the program.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Error::Source(error) => return error.hint().map(str::to_owned),
            Error::Download(error) => return error.hint().map(str::to_owned),
            Error::Merge { error, .. } | Error::Adapter(error) => return error.hint(),
            Error::Legacy(error) => return error.hint().map(str::to_owned),
            Error::Read(gguf_checkpoint::ReadError::NotFetched { advice, .. }) => {
                return advice.map(str::to_owned);
            }
            Error::Arch(error) => return error.hint(),
            Error::Gguf(error) | Error::AdapterFile { error, .. } => return error.hint().map(str::to_owned),
            Error::NeedsImatrix { is_diffusion: true, .. } => {
                "use a type that needs none, such as q2_k, q3_k_m or iq3_s"
            }
            Error::NeedsImatrix { .. } => "compute one from text similar to what the model will process",
            Error::NotInImatrix { mtp_layer: Some(layer), .. } => {
                return Some(format!(
                    "layer {layer} is an MTP layer, which is not executed while importance data is collected"
                ));
            }
            Error::NotInImatrix { is_expert: true, .. } => {
                "use an importance matrix of this model, computed from text that reaches every expert"
            }
            Error::NotInImatrix { .. } => "use an importance matrix of this model that has the tensor",
            Error::Requantize { .. } => "use the original weights",
            Error::NoSuchLayer { .. } => "layers count from 0",
            Error::KeyOverride { .. } => {
                "use the types int, float, bool or str, or exactly u8 to i64, f32 or f64"
            }
            Error::KeyOverrideRange { .. } => "specify a type such as `u64:` to change it",
            Error::TooManyShards { .. } => "allow larger shards",
            Error::OutputIsInput { .. } => "choose another output; the input is never written to",
            Error::ForeignRows { .. } => "use a type with smaller blocks, such as q5_0 or q8_0",
            Error::CopyOfCheckpoint => "use f32, f16 or bf16",
            Error::NonFinite { .. } => "the weights are damaged or were trained with such values",
            Error::Overflow { .. } => "choose a type with a wider range (bf16, f32) for this tensor",
            Error::OutputInsideInput { .. } => {
                "choose an output outside the input folder, which is never written to"
            }
            Error::NoFolder { .. } => "create the folder first",
            Error::UnknownPlaceholder { .. } => "use {ftype}, {FTYPE}, {outtype} or {OUTTYPE}",
            Error::OneNameForMany { .. } => "use a folder, or a name with {ftype}",
            _ => return None,
        };
        Some(hint.to_owned())
    }
}

/// Names in backticks.
fn listed(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(" or ")
}

/// A class as a config names it.
fn class_or_none(class: &str) -> String {
    if class.is_empty() { "no class in config.json".to_owned() } else { format!("`{class}`") }
}

/// `part 2 of 8 is missing (not started)`, `parts 2 (not started), 3 (incomplete) and 1 more of 8 are missing`.
fn missing_parts(missing: &[(u32, String)], count: u32) -> String {
    if let [(number, reason)] = missing {
        return format!("part {number} of {count} is missing ({reason})");
    }
    // A few are enough for an array that failed as a whole.
    let named: Vec<String> =
        missing.iter().take(4).map(|(number, reason)| format!("{number} ({reason})")).collect();
    let rest = and_more(missing.len() - named.len());
    format!("parts {}{rest} of {count} are missing", named.join(", "))
}
