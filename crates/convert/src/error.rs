//! Every way in which a conversion can fail.

use std::{path::PathBuf, time::SystemTime};

use tensor::DType;

use crate::unfinished::Unfinished;

/// Errors of a conversion. The caller that opened the input adds its path once.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The checkpoint cannot be read.
    #[error(transparent)]
    Source(#[from] source::Error),
    /// An adapter cannot be merged into the checkpoint.
    #[error("adapter `{}`: {error}", folder.display())]
    Merge {
        /// The adapter's folder.
        folder: PathBuf,
        /// The problem.
        error: Box<crate::merge::MergeError>,
    },
    /// An adapter cannot become an adapter file.
    #[error(transparent)]
    Adapter(Box<crate::merge::MergeError>),
    /// A file from before GGUF cannot be read.
    #[error(transparent)]
    Legacy(#[from] source::LegacyError),
    /// The checkpoint does not make a model.
    #[error(transparent)]
    Arch(#[from] arch::ArchError),
    /// No dtypes could be chosen.
    #[error(transparent)]
    Recipe(#[from] crate::recipes::RecipeError),
    /// The recipe that only copies has nothing to copy from a checkpoint.
    #[error("recipe `COPY` takes a gguf file, not a checkpoint")]
    CopyOfCheckpoint,
    /// A tensor gets a dtype that is no good without an importance matrix.
    #[error("{recipe}: tensor `{tensor}` becomes {dtype}, which needs an importance matrix")]
    NeedsImatrix {
        /// The tensor.
        tensor: String,
        /// Its dtype.
        dtype: DType,
        /// The recipe.
        recipe: &'static str,
    },
    /// An importance matrix that says nothing about a tensor that needs it.
    #[error("tensor `{tensor}` becomes {dtype} and is not in the importance matrix")]
    NotInImatrix {
        /// The tensor.
        tensor: String,
        /// Its dtype.
        dtype: DType,
        /// The MTP layer that it belongs to.
        mtp_layer: Option<u64>,
    },
    /// An importance matrix is wrong, or of another model.
    #[error("importance matrix: {0}")]
    Imatrix(crate::imatrix::ImatrixError),
    /// Weights that are quantized already.
    #[error("tensor `{tensor}` is quantized already: {from} would become {to}")]
    Requantize {
        /// The tensor.
        tensor: String,
        /// Its dtype.
        from: DType,
        /// The dtype that it would get.
        to: DType,
    },
    /// A row encoder failed to improve a tensor's blocks.
    #[error("tensor `{tensor}`: {problem}")]
    RowEncoder {
        /// The tensor.
        tensor: String,
        /// Its error.
        problem: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A layer to be left out that is not there.
    #[error("layer {layer} cannot be left out: the model has {n_layers} layers and it is not among them")]
    NoSuchLayer {
        /// The layer.
        layer: u32,
        /// Layers of the model.
        n_layers: usize,
    },
    /// All layers are to be left out.
    #[error("all {n_layers} layers would be left out")]
    NoLayerLeft {
        /// Layers of the model.
        n_layers: usize,
    },
    /// Invalid `KEY=TYPE:VALUE`.
    #[error("`{text}` is not `KEY=TYPE:VALUE`: {problem}")]
    KeyOverride {
        /// The text as given.
        text: String,
        /// The problem.
        problem: String,
    },
    /// A number that the type of its key does not hold.
    #[error("metadata key `{key}`: {value} is not a value of its type {type_name}")]
    KeyOverrideRange {
        /// The key.
        key: String,
        /// The number.
        value: String,
        /// The type that the key has.
        type_name: &'static str,
    },
    /// More shards than their numbers can count.
    #[error("{count} shards are more than 65535")]
    TooManyShards {
        /// Resulting number.
        count: usize,
    },
    /// The output would replace what is read.
    #[error("output `{}` is the input", path.display())]
    OutputIsInput {
        /// The path.
        path: PathBuf,
    },
    /// A shape that ggml does not have.
    #[error("tensor `{tensor}`: {source}")]
    Shape {
        /// The tensor.
        tensor: String,
        /// The problem.
        source: tensor::ShapeError,
    },
    /// Rows of a source tensor cannot be read.
    #[error(transparent)]
    Read(source::ReadError),
    /// A GGUF file, a plan or an output is wrong.
    #[error(transparent)]
    Gguf(#[from] gguf::Error),
    /// Rows cannot be encoded or decoded.
    #[error("tensor `{tensor}`: {error}")]
    Encode {
        /// The tensor.
        tensor: String,
        /// Error of the codec.
        error: quant::CodecError,
    },
    /// A layout names a source tensor that the checkpoint does not have.
    #[error("tensor `{name}` is missing; `{wanted_by}` is made from it")]
    NoSuchTensor {
        /// The absent tensor.
        name: String,
        /// The output tensor that needs it.
        wanted_by: String,
    },
    /// Source and output tensor do not have the same rows.
    #[error("tensor `{tensor}`: `{source_names}` has {found} {unit}, {expected} expected")]
    RowsDiffer {
        /// The output tensor.
        tensor: String,
        /// The source tensors.
        source_names: String,
        /// Value found.
        found: u64,
        /// Expected value.
        expected: u64,
        /// Unit of both.
        unit: &'static str,
    },
    /// A weight that is not a number, or infinite.
    #[error("tensor `{tensor}`: row {row}, column {column} is {value}")]
    NonFinite {
        /// The output tensor.
        tensor: String,
        /// The row, from 0, in the order of the output.
        row: u64,
        /// The column, from 0.
        column: u64,
        /// The value.
        value: f32,
    },
    /// A value that the target type turns into infinity.
    #[error("tensor `{tensor}`: row {row}, column {column}: {value} is beyond what {dtype} can hold")]
    Overflow {
        /// The output tensor.
        tensor: String,
        /// The row, from 0, in the order of the output.
        row: u64,
        /// The column, from 0.
        column: u64,
        /// The value.
        value: f32,
        /// The target type.
        dtype: DType,
    },
    /// The run was stopped from outside.
    #[error("interrupted; nothing was written under the final name")]
    Cancelled,
    /// Another process is writing the output.
    #[error("`{}` is being written by process {process} on `{host}`", path.display())]
    Busy {
        /// The output.
        path: PathBuf,
        /// The number of the process.
        process: u32,
        /// The name of its machine.
        host: String,
        /// When it began.
        began: Option<SystemTime>,
    },
    /// An earlier run to the same output was stopped, and what it did would be lost.
    #[error(
        "`{}`: an earlier run was stopped with {} of {} bytes done",
        path.display(), run.done_bytes, run.total_bytes
    )]
    Unfinished {
        /// The output.
        path: PathBuf,
        /// The unfinished run.
        run: Box<Unfinished>,
    },
    /// An earlier run was made of something else, so that its rows do not fit.
    #[error("`{}`: cannot resume the earlier run: {}", path.display(), differences.join("; "))]
    NotResumable {
        /// The output.
        path: PathBuf,
        /// Differences, one sentence each.
        differences: Vec<String>,
        /// The unfinished run.
        run: Box<Unfinished>,
    },
    /// A part was made by another plan.
    #[error("`{}`: of another plan: {}", path.display(), differences.join("; "))]
    OtherPlan {
        /// The journal of the part.
        path: PathBuf,
        /// Differences, one sentence each.
        differences: Vec<String>,
    },
    /// Parts of one output were cut into different numbers.
    #[error("`{}` is of {found} parts, not of {expected}", path.display())]
    PartsDiffer {
        /// The existing journal of a part.
        path: PathBuf,
        /// Its number of parts.
        found: u32,
        /// The number that is wanted.
        expected: u32,
    },
    /// No part of an output is there.
    #[error("`{}`: no part of it is there", path.display())]
    NoParts {
        /// The output.
        path: PathBuf,
    },
    /// Parts are not there, or not whole.
    #[error("`{}`: of {count} parts {}", path.display(), missing_parts(missing))]
    PartsMissing {
        /// The output.
        path: PathBuf,
        /// Expected number.
        count: u32,
        /// Missing parts, with reasons.
        missing: Vec<(u32, String)>,
    },
    /// All parts are whole and leave something out: they were made by programs that share otherwise.
    #[error("tensor `{tensor}`: rows from {row} on are in no part")]
    PartGap {
        /// The tensor.
        tensor: String,
        /// The first row that is missing.
        row: u64,
    },
    /// The bytes of a part are not those that its journal speaks of.
    #[error(
        "part `{}`: rows {} to {} of tensor `{tensor}` are not what it wrote",
        path.display(), rows.start, rows.end
    )]
    PartDamaged {
        /// The part.
        path: PathBuf,
        /// The tensor.
        tensor: String,
        /// Its rows.
        rows: std::ops::Range<u64>,
    },
    /// The output would lie in the folder that is read.
    #[error("output `{}` lies inside the input folder", path.display())]
    OutputInsideInput {
        /// The output as it would be written.
        path: PathBuf,
    },
    /// The folder of the output is not there.
    #[error("folder `{}` does not exist", folder.display())]
    NoFolder {
        /// The folder.
        folder: PathBuf,
    },
    /// The folder of an output is a file.
    #[error("`{}` is not a folder", folder.display())]
    NotAFolder {
        /// The missing folder.
        folder: PathBuf,
    },
    /// A name in braces that is not known.
    #[error("`{{{name}}}` in the output's name is not known")]
    UnknownPlaceholder {
        /// Text between the braces.
        name: String,
    },
    /// Several types that would all get the same name.
    #[error("{n_types} types would be written to `{}`", path.display())]
    OneNameForMany {
        /// Number of types to make.
        n_types: usize,
        /// The path.
        path: PathBuf,
    },
}

impl Error {
    /// Advice for the user, independent of the program.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Error::Source(error) => return error.hint().map(str::to_owned),
            Error::Merge { error, .. } | Error::Adapter(error) => return error.hint(),
            Error::Legacy(error) => return error.hint().map(str::to_owned),
            Error::Read(source::ReadError::NotFetched { advice, .. }) => return advice.map(str::to_owned),
            Error::Arch(error) => return error.hint(),
            Error::Gguf(error) => return error.hint().map(str::to_owned),
            Error::NeedsImatrix { .. } => "make one of text like that which the model is for",
            Error::NotInImatrix { mtp_layer: Some(layer), .. } => {
                return Some(format!(
                    "layer {layer} is an MTP layer, which is not executed while importance data is collected"
                ));
            }
            Error::NotInImatrix { .. } => {
                "was the importance matrix made for this model, with text that reaches every expert?"
            }
            Error::Requantize { .. } => "start from the original weights",
            Error::NoSuchLayer { .. } => "layers count from 0",
            Error::KeyOverride { .. } => {
                "types are int, float, bool and str, or u8 to i64, f32 and f64 to be exact"
            }
            Error::KeyOverrideRange { .. } => "state the type, as in `u64:`, to change it",
            Error::TooManyShards { .. } => "allow more for each",
            Error::OutputIsInput { .. } => "give another name; the input is never written to",
            Error::CopyOfCheckpoint => "f32, f16 and bf16 keep the weights as plain numbers",
            Error::NonFinite { .. } => "the weights are damaged or were trained to that",
            Error::Overflow { .. } => "choose a type with a wider range (bf16, f32) for this tensor",
            Error::OutputInsideInput { .. } => {
                "give an output outside of it; the input folder is never written to"
            }
            Error::NoFolder { .. } => "make it first",
            Error::UnknownPlaceholder { .. } => "known are {ftype}, {FTYPE}, {outtype} and {OUTTYPE}",
            Error::OneNameForMany { .. } => "give a folder, or a name that holds {ftype}",
            _ => return None,
        };
        Some(hint.to_owned())
    }
}

/// `2 (not started) and 3 more are missing`.
fn missing_parts(missing: &[(u32, String)]) -> String {
    // A few tell enough of an array that failed as a whole.
    let named: Vec<String> =
        missing.iter().take(4).map(|(number, reason)| format!("{number} ({reason})")).collect();
    let rest = match missing.len() - named.len() {
        0 => String::new(),
        n => format!(" and {n} more"),
    };
    let verb = if missing.len() == 1 { "is" } else { "are" };
    format!("{}{rest} {verb} missing", named.join(", "))
}
