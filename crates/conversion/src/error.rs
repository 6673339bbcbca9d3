use std::{path::PathBuf, time::SystemTime};

use gguf_types::{DType, and_more};

use crate::unfinished::Unfinished;

/// Errors of a conversion. The caller that opened the input adds its path.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages explain the fields")]
pub enum Error {
    #[error(transparent)]
    Source(#[from] gguf_checkpoint::Error),
    /// Downloaded weights do not match the Hub's checksum.
    #[error(transparent)]
    Download(#[from] Box<gguf_checkpoint::hub::HubError>),
    #[error("adapter `{}`: {error}", folder.display())]
    Merge { folder: PathBuf, error: Box<crate::merge::MergeError> },
    #[error("adapter `{}`: {error}", path.display())]
    AdapterFile { path: PathBuf, error: gguf_container::Error },
    #[error(transparent)]
    Adapter(Box<crate::merge::MergeError>),
    #[error(transparent)]
    Legacy(#[from] gguf_checkpoint::LegacyError),
    #[error(transparent)]
    Arch(#[from] gguf_layout::ArchError),
    #[error(transparent)]
    Recipe(#[from] crate::recipes::RecipeError),
    /// The model's class is not supported by another runtime's format.
    #[error("{format}: expected a model of class {}, found {}", listed(expected), class_or_none(found))]
    ForeignClass {
        format: &'static str,
        /// Class named by the config; empty if missing.
        found: String,
        expected: Vec<&'static str>,
    },
    #[error("{format}: type `{found}` is not supported; expected one of {}", expected.join(", "))]
    ForeignType { format: &'static str, found: String, expected: Vec<&'static str> },
    /// Rows do not fill blocks, in a format that allows no other type for them.
    #[error("{format}: tensor `{tensor}`: rows of {row_elems} elements are not whole blocks of {dtype}")]
    ForeignRows { format: &'static str, tensor: String, row_elems: u64, dtype: DType },
    /// The recipe that only copies cannot be applied to a checkpoint.
    #[error("type `COPY` needs a GGUF file as input, not a checkpoint")]
    CopyOfCheckpoint,
    #[error("{recipe}: tensor `{tensor}`: type {dtype} needs an importance matrix")]
    NeedsImatrix {
        tensor: String,
        dtype: DType,
        recipe: &'static str,
        /// True for a diffusion model, which does not process text.
        is_diffusion: bool,
    },
    /// The importance matrix has no entry for a tensor that needs one.
    #[error(
        "tensor `{tensor}`: type {dtype} needs importance data, but the importance matrix has no entry \
        for the tensor"
    )]
    NotInImatrix { tensor: String, dtype: DType, mtp_layer: Option<u64>, is_expert: bool },
    /// The importance matrix is invalid or belongs to another model.
    #[error("importance matrix: {0}")]
    Imatrix(crate::imatrix::ImatrixError),
    #[error("tensor `{tensor}` is already quantized: {from} would become {to}")]
    Requantize { tensor: String, from: DType, to: DType },
    #[error("tensor `{tensor}`: {problem}")]
    RowEncoder { tensor: String, problem: Box<dyn std::error::Error + Send + Sync> },
    /// A layer to be removed does not exist.
    #[error("layer {layer} cannot be removed: the model has only {n_layers} layers, counted from 0")]
    NoSuchLayer { layer: u32, n_layers: usize },
    #[error("all {n_layers} layers would be removed")]
    NoLayerLeft { n_layers: usize },
    #[error("`{text}`: expected KEY=TYPE:VALUE: {problem}")]
    KeyOverride { text: String, problem: String },
    /// The number is out of range for the type of its key.
    #[error("metadata key `{key}`: {value} is not a valid {type_name}")]
    KeyOverrideRange { key: String, value: String, type_name: &'static str },
    /// More shards than the keys can count.
    #[error("{count} shards exceed the limit of 65535")]
    TooManyShards { count: usize },
    #[error("output `{}` is also the input", path.display())]
    OutputIsInput { path: PathBuf },
    #[error("tensor `{tensor}`: {source}")]
    Shape { tensor: String, source: gguf_types::ShapeError },
    #[error(transparent)]
    Read(gguf_checkpoint::ReadError),
    #[error(transparent)]
    Gguf(#[from] gguf_container::Error),
    #[error("tensor `{tensor}`: {error}")]
    Encode { tensor: String, error: gguf_quant::CodecError },
    /// A layout names a source tensor that the checkpoint does not have.
    #[error("missing tensor `{name}`, which is needed for `{wanted_by}`")]
    NoSuchTensor { name: String, wanted_by: String },
    #[error("tensor `{tensor}`: `{source_names}`: expected {expected} {unit}, found {found}")]
    RowsDiffer { tensor: String, source_names: String, found: u64, expected: u64, unit: &'static str },
    /// A weight is NaN or infinite.
    #[error("tensor `{tensor}`: row {row}, column {column} is {value}")]
    NonFinite {
        tensor: String,
        /// Row of the output, from 0.
        row: u64,
        column: u64,
        value: f32,
    },
    /// The target type turns a finite value into infinity.
    #[error("tensor `{tensor}`: row {row}, column {column}: {value} is out of range for {dtype}")]
    Overflow {
        tensor: String,
        /// Row of the output, from 0.
        row: u64,
        column: u64,
        value: f32,
        dtype: DType,
    },
    #[error("interrupted; no output was written under its final name")]
    Cancelled,
    #[error("`{}` is being written by process {process} on `{host}`", path.display())]
    Busy { path: PathBuf, process: u32, host: String, began: Option<SystemTime> },
    /// An earlier run to the same output was interrupted, and its work would be lost.
    #[error(
        "`{}`: an earlier run was interrupted after {} of {} bytes",
        path.display(), run.done_bytes, run.total_bytes
    )]
    Unfinished { path: PathBuf, run: Box<Unfinished> },
    /// The rows of an earlier run do not fit, because its inputs or options differ.
    #[error("`{}`: cannot resume the earlier run: {}", path.display(), differences.join("; "))]
    NotResumable {
        path: PathBuf,
        differences: Vec<String>,
        /// Changes of options that would make it resumable.
        advice: Option<String>,
        run: Box<Unfinished>,
    },
    /// A part was made from another plan.
    #[error("`{}` belongs to another plan: {}", path.display(), differences.join("; "))]
    OtherPlan { path: PathBuf, differences: Vec<String> },
    /// Parts of one output were made for different numbers of parts.
    #[error("`{}` belongs to a run with {found} parts, expected {expected}", path.display())]
    PartsDiffer { path: PathBuf, found: u32, expected: u32 },
    #[error("`{}`: no parts found", path.display())]
    NoParts { path: PathBuf },
    #[error("`{}`: {}", path.display(), missing_parts(missing, *count))]
    PartsMissing { path: PathBuf, count: u32, missing: Vec<(u32, String)> },
    /// All parts are complete, but rows are missing: versions of the program divided the work differently.
    #[error("tensor `{tensor}`: no part contains the rows from {row} on")]
    PartGap { tensor: String, row: u64 },
    /// The bytes of a part do not match the checksums of its journal.
    #[error(
        "part `{}`: rows {} to {} of tensor `{tensor}` were changed after they were written",
        path.display(), rows.start, rows.end
    )]
    PartDamaged { path: PathBuf, tensor: String, rows: std::ops::Range<u64> },
    /// The output would be inside the folder that is read.
    #[error("output `{}` is inside the input folder", path.display())]
    OutputInsideInput { path: PathBuf },
    #[error("folder `{}` does not exist", folder.display())]
    NoFolder { folder: PathBuf },
    #[error("`{}` is not a folder", folder.display())]
    NotAFolder { folder: PathBuf },
    #[error("unknown placeholder `{{{name}}}` in the output name")]
    UnknownPlaceholder { name: String },
    /// Several types would get the same file name.
    #[error("{n_types} types would be written to the same file `{}`", path.display())]
    OneNameForMany { n_types: usize, path: PathBuf },
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

fn listed(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(" or ")
}

fn class_or_none(class: &str) -> String {
    if class.is_empty() { "no class in config.json".to_owned() } else { format!("`{class}`") }
}

/// `part 2 of 8 is missing (not started)`, `parts 2 (not started), 3 (incomplete) and 1 more of 8 are missing`.
fn missing_parts(missing: &[(u32, String)], count: u32) -> String {
    if let [(number, reason)] = missing {
        return format!("part {number} of {count} is missing ({reason})");
    }
    // A few suffice if all parts of a job array failed.
    let named: Vec<String> =
        missing.iter().take(4).map(|(number, reason)| format!("{number} ({reason})")).collect();
    let rest = and_more(missing.len() - named.len());
    format!("parts {}{rest} of {count} are missing", named.join(", "))
}
