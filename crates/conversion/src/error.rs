use std::{path::PathBuf, time::SystemTime};

use gguf_types::{DType, Fields as _, Problem, Words, and_more, words};

use crate::{imatrix::ImatrixError, merge::MergeError, unfinished::Unfinished};

/// Errors of a conversion. The caller that opened the input adds its path.
#[derive(Debug, thiserror::Error, gguf_types::Fields)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages explain the fields")]
pub enum Error {
    #[error(transparent)]
    Source(#[from] gguf_checkpoint::Error),
    /// Downloaded weights do not match the Hub's checksum.
    #[error(transparent)]
    Download(#[from] Box<gguf_checkpoint::hub::HubError>),
    #[error("adapter `{}`: {error}", folder.display())]
    Merge { folder: PathBuf, error: Box<MergeError> },
    #[error("adapter `{}`: {error}", path.display())]
    AdapterFile { path: PathBuf, error: gguf_container::Error },
    #[error(transparent)]
    Adapter(Box<MergeError>),
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
    #[fact(expected = "an importance matrix")]
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
    #[fact(expected = "an entry of the importance matrix")]
    NotInImatrix { tensor: String, dtype: DType, mtp_layer: Option<u64>, is_expert: bool },
    /// The importance matrix is invalid or belongs to another model.
    #[error("importance matrix: {0}")]
    Imatrix(ImatrixError),
    #[error("tensor `{tensor}` is already quantized: {from} would become {to}")]
    #[fact(expected = to, found = from)]
    Requantize { tensor: String, from: DType, to: DType },
    #[error("only files of known image and video models can be repaired")]
    NotRepairable,
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
    #[fact(expected = type_name, found = value)]
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
    #[fact(tensor = name)]
    NoSuchTensor { name: String, wanted_by: String },
    #[error("tensor `{tensor}`: `{source_names}`: expected {expected} {unit}, found {found}")]
    RowsDiffer { tensor: String, source_names: String, found: u64, expected: u64, unit: &'static str },
    /// A weight is NaN or infinite.
    #[error("tensor `{tensor}`: row {row}, column {column} is {value}")]
    #[fact(expected = "a finite number", found = value)]
    NonFinite {
        tensor: String,
        /// Row of the output, from 0.
        row: u64,
        column: u64,
        value: f32,
    },
    /// The target type turns a finite value into infinity.
    #[error("tensor `{tensor}`: row {row}, column {column}: {value} is out of range for {dtype}")]
    #[fact(expected = format_args!("a value of {dtype}"), found = value)]
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

impl Problem for Error {
    fn hint(&self) -> Option<Words> {
        let hint = match self {
            // The adapter may replace the tokenizer of the model.
            Error::Merge { error, .. }
                if matches!(**error, MergeError::Vocabulary { .. } | MergeError::Token { .. }) =>
            {
                return Some(words!(
                    "if the adapter folder contains the tokenizer of this vocabulary, add [-lora-tokenizer]"
                ));
            }
            Error::NeedsImatrix { is_diffusion: true, .. } => {
                return Some(words!(
                    "use a type that needs none, such as q2_k, q3_k_m or iq3_s, or weigh all columns alike with `[-missing-imatrix ones]`"
                ));
            }
            Error::NeedsImatrix { .. } => {
                return Some(words!("compute one with `[gguf-eval imatrix]` and pass it with [-imatrix]"));
            }
            Error::NotInImatrix { mtp_layer: Some(layer), .. } => {
                return Some(words!(
                    "layer {} is an MTP layer, which has no importance data because it is not executed: use `[-missing-imatrix raise-type]`, or set a type with `[-tensor-type 'blk\\.{}\\.=q4_k']`",
                    layer,
                    layer
                ));
            }
            Error::NotInImatrix { is_expert: true, .. } => {
                return Some(words!(
                    "use an importance matrix computed from text that reaches every expert, or `[-missing-imatrix raise-type]`"
                ));
            }
            Error::NotInImatrix { .. } | Error::Imatrix(ImatrixError::NoNeighbour { .. }) => {
                return Some(words!(
                    "use an importance matrix that has the tensor, or a larger type with `[-missing-imatrix raise-type]`"
                ));
            }
            Error::Requantize { .. } => {
                return Some(words!(
                    "use the original weights, or accept the extra loss with `[gguf-quantize -allow-requantize]`"
                ));
            }
            Error::NonFinite { .. } => {
                return Some(words!(
                    "download the weights again if they are damaged; use [-allow-nonfinite] if they were trained that way"
                ));
            }
            Error::OtherPlan { .. } | Error::PartDamaged { .. } => {
                return Some(words!("run `[part PLAN K/N -force]` to convert that part again"));
            }
            Error::NoParts { .. } | Error::PartsMissing { .. } => {
                return Some(words!("run `[part PLAN K/N]` to convert or resume a part"));
            }
            Error::PartsDiffer { .. } => {
                "use the same N for all parts of a plan, or remove the part files that were made with a different N"
            }
            Error::NoSuchLayer { .. } => "layers count from 0",
            Error::KeyOverride { .. } => {
                "use the types int, float, bool or str, or exactly u8 to i64, f32 or f64"
            }
            Error::KeyOverrideRange { .. } => "specify a type such as `u64:` to change it",
            Error::TooManyShards { .. } => "allow larger shards",
            Error::OutputIsInput { .. } => "choose another output; the input is never written to",
            Error::ForeignRows { .. } => "use a type with smaller blocks, such as q5_0 or q8_0",
            Error::CopyOfCheckpoint => "use f32, f16 or bf16",
            Error::Overflow { .. } => "choose a type with a wider range (bf16, f32) for this tensor",
            Error::OutputInsideInput { .. } => {
                "choose an output outside the input folder, which is never written to"
            }
            Error::NoFolder { .. } => "create the folder first",
            Error::UnknownPlaceholder { .. } => "use {ftype}, {FTYPE}, {outtype} or {OUTTYPE}",
            Error::OneNameForMany { .. } => "use a folder, or a name with {ftype}",
            _ => return self.inner()?.hint(),
        };
        Some(hint.into())
    }

    fn is_interruption(&self) -> bool {
        matches!(self, Error::Cancelled) || self.inner().is_some_and(Problem::is_interruption)
    }

    fn names_its_file(&self) -> bool {
        match self {
            Error::Gguf(error) => error.names_its_file(),
            error => matches!(
                error,
                Error::Merge { .. }
                    | Error::Legacy(_)
                    | Error::OtherPlan { .. }
                    | Error::PartsDiffer { .. }
                    | Error::NoParts { .. }
                    | Error::PartsMissing { .. }
                    | Error::PartGap { .. }
                    | Error::PartDamaged { .. }
                    | Error::OutputIsInput { .. }
                    | Error::OutputInsideInput { .. }
                    | Error::NoFolder { .. }
                    | Error::NotAFolder { .. }
                    | Error::UnknownPlaceholder { .. }
                    | Error::OneNameForMany { .. }
                    | Error::Cancelled
            ),
        }
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
