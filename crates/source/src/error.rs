//! Every way in which a checkpoint can be wrong.

use std::io;

use gguf::BrokenDownload;
use tensor::list_names;

use crate::{Dtype, PickleError, ReadError, ZipError};

/// Error in a checkpoint. File names are relative to the folder; the caller adds its path.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The system refused.
    #[error("{}cannot open: {error}", if file == "." { String::new() } else { format!("`{file}`: ") })]
    Io {
        /// The file, or `.` for the folder itself.
        file: String,
        /// Error of the system.
        error: io::Error,
    },
    /// A remnant of a broken download instead of a file.
    #[error("`{file}` is {}, expected the file itself", kind.name())]
    BrokenDownload {
        /// The file.
        file: String,
        /// The kind.
        kind: BrokenDownload,
    },
    /// The source is not a folder.
    #[error("not a folder")]
    NotAFolder,
    /// No file of any known format.
    #[error("no weights found; looked for {}", .expected.join(", "))]
    NoWeights {
        /// File patterns of every format.
        expected: Vec<&'static str>,
    },
    /// A folder without weights that has them in a folder below.
    #[error("no weights found in the folder itself; `{folder}` has weights")]
    WeightsBelow {
        /// The folder below, relative to the folder.
        folder: String,
    },
    /// Weights of a format that is known and not read yet.
    #[error("`{file}`: weights in {format}, which is not read yet")]
    NotReadYet {
        /// The format's name.
        format: &'static str,
        /// The first file of it.
        file: String,
    },
    /// Weights in a format of another program.
    #[error("`{file}`: weights in {format}, which is not read")]
    Foreign {
        /// The format's name.
        format: &'static str,
        /// The first file of it.
        file: String,
        /// Suggested remedy.
        advice: &'static str,
    },
    /// Bytes of a weights file could not be had.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// Weights of a quantization method that is known and not read.
    #[error("weights are quantized by {method}, which is not read; recognized by {recognized_by}")]
    MethodNotRead {
        /// The method's name.
        method: &'static str,
        /// Distinguishing feature.
        recognized_by: &'static str,
        /// Suggested remedy.
        advice: &'static str,
    },
    /// Weights with an unknown quantization method.
    #[error("{file}: weights are quantized by `{method}`, which is not supported")]
    UnknownMethod {
        /// Location of the config.
        file: String,
        /// The method as written.
        method: String,
    },
    /// Codes that no config and no other tensor explains.
    #[error(
        "tensor `{tensor}`: {dtype} of shape {shape:?} looks like codes, and nothing says what they mean"
    )]
    CodesOfNoMethod {
        /// The tensor.
        tensor: String,
        /// Its type.
        dtype: Dtype,
        /// Its shape, row length last.
        shape: Vec<u64>,
    },
    /// Codes that mean nothing without scales.
    #[error("tensor `{tensor}`: codes of {dtype} without scales")]
    CodesWithoutScales {
        /// The tensor of the codes.
        tensor: String,
        /// Its type.
        dtype: Dtype,
    },
    /// Scales, zeros or similar parts without matching codes.
    #[error(
        "tensor `{tensor}`: a part of quantized weights whose codes are not there, or are of another type"
    )]
    ScalesWithoutCodes {
        /// The tensor.
        tensor: String,
    },
    /// A part of quantized weights has a type that it never has.
    #[error("tensor `{tensor}`: expected {expected}, found {found}")]
    PartType {
        /// The tensor.
        tensor: String,
        /// The types that belong there.
        expected: &'static str,
        /// Its type.
        found: Dtype,
    },
    /// A part of quantized weights does not fit the codes.
    #[error("tensor `{tensor}`: shape {found:?}, expected {expected} for `{codes}` of shape {shape:?}")]
    PartShape {
        /// The tensor.
        tensor: String,
        /// Its shape, row length last.
        found: Vec<u64>,
        /// Expected value.
        expected: String,
        /// The tensor of the codes.
        codes: String,
        /// Its shape, row length last.
        shape: Vec<u64>,
    },
    /// A part of quantized weights is not what its form says.
    #[error("tensor `{tensor}`: expected {expected}, found {found}")]
    PartForm {
        /// The tensor.
        tensor: String,
        /// Expected value.
        expected: String,
        /// Found value.
        found: String,
    },
    /// A part of quantized weights is not there.
    #[error("tensor `{tensor}` is missing, which belongs to the codes `{codes}`")]
    PartMissing {
        /// The tensor.
        tensor: String,
        /// The tensor of the codes.
        codes: String,
    },
    /// A part of quantized weights is smaller than the codes ask for.
    #[error("tensor `{tensor}`: {found} bytes, {expected} are needed")]
    PartBytes {
        /// The tensor.
        tensor: String,
        /// Bytes that belong there.
        expected: u64,
        /// Number of bytes found.
        found: u64,
    },
    /// Invalid number in a part of quantized weights.
    #[error("tensor `{tensor}`: element {index}: expected {expected}, found {found}")]
    PartValue {
        /// The tensor.
        tensor: String,
        /// The element.
        index: u64,
        /// Expected value.
        expected: String,
        /// Found value.
        found: i64,
    },
    /// Tensors that have no elements.
    #[error("{} empty tensor(s): {}; the {} was saved under DeepSpeed ZeRO-3 without gathering its weights", names.len(), list_names(names), if *is_adapter { "adapter" } else { "model" })]
    EmptyTensors {
        /// Their names.
        names: Vec<String>,
        /// True for tensors of an adapter.
        is_adapter: bool,
    },
    /// A checkpoint of mlx-lm whose weights differ from Hugging Face's form.
    #[error("an MLX checkpoint of `{family}`, which is not supported: {difference}")]
    MlxLayout {
        /// Its `model_type`.
        family: String,
        /// The difference of its weights.
        difference: &'static str,
    },
    /// An adapter of mlx-lm that has no counterpart in PEFT.
    #[error("an MLX adapter: {problem}")]
    MlxAdapter {
        /// Difference.
        problem: String,
    },
    /// Tensors of more than one adapter in a file.
    #[error("tensors of {} adapters in one file: {}", names.len(), list_names(names))]
    SeveralAdapters {
        /// The names of the adapters.
        names: Vec<String>,
    },
    /// A file that every checkpoint of this format has.
    #[error("`{file}` is missing")]
    MissingFile {
        /// Its name.
        file: String,
    },
    /// A small file is too large to be one.
    #[error("`{file}`: {found} bytes, at most {limit} are read of such a file")]
    FileTooLarge {
        /// Its name.
        file: String,
        /// Its length in bytes.
        found: u64,
        /// The limit in bytes.
        limit: u64,
    },
    /// A file is not JSON.
    #[error("`{file}`: {error}")]
    Json {
        /// Its name.
        file: String,
        /// Problem, with line and column.
        error: serde_json::Error,
    },
    /// JSON of another form than expected.
    #[error("`{file}`: expected {expected}, found {found}")]
    JsonForm {
        /// The file.
        file: String,
        /// Expected value, with its location.
        expected: String,
        /// Found value.
        found: String,
    },
    /// A weights file that ends inside the length of its header, or before the header's end.
    #[error("`{file}`: the header takes {expected} bytes, the file has {found}")]
    HeaderCut {
        /// The file.
        file: String,
        /// Bytes of header length and header.
        expected: u64,
        /// Bytes of the file.
        found: u64,
    },
    /// A header length beyond the format's limit.
    #[error("`{file}`: header of {found} bytes, at most {limit} are allowed")]
    HeaderTooLarge {
        /// The file.
        file: String,
        /// The length that the file states.
        found: u64,
        /// The format's limit.
        limit: u64,
    },
    /// A header that does not parse.
    #[error("`{file}`: header{}: {error}", .tensor.as_ref().map(|t| format!(" at tensor `{t}`")).unwrap_or_default())]
    Header {
        /// The file.
        file: String,
        /// The entry in which parsing stopped.
        tensor: Option<String>,
        /// Problem.
        error: serde_json::Error,
    },
    /// The same name twice.
    #[error("tensor `{tensor}` is both in `{first}` and in `{second}`")]
    DuplicateTensor {
        /// The name.
        tensor: String,
        /// The file that holds the first.
        first: String,
        /// The file that holds the second; may be the same one.
        second: String,
    },
    /// A type that the format does not have.
    #[error("`{file}`: tensor `{tensor}`: dtype `{found}` is not known")]
    UnknownDtype {
        /// The file.
        file: String,
        /// The tensor.
        tensor: String,
        /// The type as written.
        found: String,
    },
    /// A shape whose size does not fit 64 bits or ends inside a byte.
    #[error("`{file}`: tensor `{tensor}`: shape {shape:?} of {dtype} is not a size in bytes")]
    BadShape {
        /// The file.
        file: String,
        /// The tensor.
        tensor: String,
        /// Dimensions, row length last.
        shape: Vec<u64>,
        /// The type.
        dtype: Dtype,
    },
    /// Offsets that do not belong to the shape.
    #[error(
        "`{file}`: tensor `{tensor}`: shape {shape:?} of {dtype} takes {expected} bytes, the header gives bytes {begin} to {end}"
    )]
    SizeMismatch {
        /// The file.
        file: String,
        /// The tensor.
        tensor: String,
        /// Dimensions, row length last.
        shape: Vec<u64>,
        /// The type.
        dtype: Dtype,
        /// Bytes by shape and type.
        expected: u64,
        /// First byte as stated.
        begin: u64,
        /// End as stated.
        end: u64,
    },
    /// A tensor does not begin where the one before it ends: a hole or an overlap.
    #[error(
        "`{file}`: tensor `{tensor}` begins at byte {found} of the data, the one before it ends at {expected}"
    )]
    NotContiguous {
        /// The file.
        file: String,
        /// The tensor.
        tensor: String,
        /// End of the tensor before.
        expected: u64,
        /// Its own begin.
        found: u64,
    },
    /// Tensors end elsewhere than the file.
    #[error("`{file}`: header and tensors take {expected} bytes, the file has {found}")]
    FileLength {
        /// The file.
        file: String,
        /// Bytes by the header.
        expected: u64,
        /// Bytes of the file.
        found: u64,
    },
    /// A weights file that the index or the numbering of its siblings asks for.
    #[error("weights file `{file}` is missing: {reason}")]
    MissingShard {
        /// The file.
        file: String,
        /// Who asks for it.
        reason: String,
    },
    /// The index points out of the folder.
    #[error("`{index}`: weights file `{file}` is not a plain file name")]
    ShardOutside {
        /// The index.
        index: String,
        /// The name as written.
        file: String,
    },
    /// A file of the folder is a link to a file elsewhere.
    #[error("`{file}` is a link out of the folder, to {to}")]
    LinkOutside {
        /// The file.
        file: String,
        /// Target of the link.
        to: String,
    },
    /// The index and the files do not hold the same tensors.
    #[error("`{index}` and the weights files differ: {}", mismatch(.absent, .unlisted))]
    IndexMismatch {
        /// The index.
        index: String,
        /// Tensors of the index that no file holds, sorted.
        absent: Vec<String>,
        /// Tensors of files that the index does not list, sorted.
        unlisted: Vec<String>,
    },
    /// A pickle that is not one of plain tensors.
    #[error("`{file}`: {problem}")]
    Pickle {
        /// The file.
        file: String,
        /// Problem with it.
        problem: PickleError,
    },
    /// An archive that `torch.save` did not write.
    #[error("`{file}`: {problem}")]
    Zip {
        /// The file.
        file: String,
        /// Problem with it.
        problem: ZipError,
    },
    /// Neither of the forms that `torch.save` writes.
    #[error("`{file}` is not a file of torch.save: found {found}")]
    NotAPickle {
        /// The file.
        file: String,
        /// Apparent content.
        found: &'static str,
    },
    /// Shards of one matrix that do not belong together.
    #[error("`{files}`: tensor `{tensor}`: {problem}")]
    ShardsDiffer {
        /// The files, first and last.
        files: String,
        /// The tensor.
        tensor: String,
        /// Difference.
        problem: String,
    },
    /// Codes of quantized weights that do not lie in their file one after the other.
    #[error(
        "tensor `{tensor}` belongs to weights quantized by {method} and is stored by strides, which is not read"
    )]
    StridedCodes {
        /// The tensor.
        tensor: String,
        /// The method's name.
        method: &'static str,
    },
    /// Files without a single tensor.
    #[error("`{file}` holds no tensors")]
    NoTensors {
        /// The index or the weights file.
        file: String,
    },
}

fn mismatch(absent: &[String], unlisted: &[String]) -> String {
    let mut parts = Vec::new();
    if !absent.is_empty() {
        parts.push(format!("no file holds {}", list_names(absent)));
    }
    if !unlisted.is_empty() {
        parts.push(format!("the index does not list {}", list_names(unlisted)));
    }
    parts.join("; ")
}

impl Error {
    /// Suggested remedy.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Error::MethodNotRead { advice, .. } | Error::Foreign { advice, .. } => Some(advice),
            Error::CodesOfNoMethod { .. } => Some(
                "give the folder with the `quantization_config` and all tensors that belong to these weights, or the one \
                 they were quantized from",
            ),
            Error::Read(ReadError::NotFetched { advice, .. }) => *advice,
            Error::UnknownMethod { .. } => Some(
                "convert the checkpoint that these weights were quantized from; if they are plain, remove the entry",
            ),
            Error::HeaderCut { .. } | Error::FileLength { .. } | Error::MissingShard { .. } => {
                Some("download the file again; compare its length with the one the model's page states")
            }
            Error::IndexMismatch { .. } => {
                Some("files of two downloads are mixed, or one is missing; download the folder again")
            }
            Error::DuplicateTensor { first, second, .. } if first != second => {
                Some("keep one of the two files in the folder, or add an index that names the right ones")
            }
            Error::Json { .. } | Error::Header { .. } => {
                Some("a file that starts with `version https://git-lfs` or `<html>` is not the real one")
            }
            Error::MissingFile { .. } => {
                Some("give the folder that a model's page lists, with all its small files")
            }
            Error::Pickle {
                problem: PickleError::Global { .. } | PickleError::NotAStateDict { .. }, ..
            } => Some("save the state dict alone: torch.save(model.state_dict(), file), or safetensors"),
            Error::Zip { problem: ZipError::TorchScript { .. }, .. } => {
                Some("load it with torch.jit.load and save its state dict")
            }
            Error::NotAPickle { .. }
            | Error::Zip { problem: ZipError::OutOfFile { .. } | ZipError::Broken { .. }, .. } => Some(
                "download the file again; one that starts with `version https://git-lfs` or `<html>` is not the real one",
            ),
            Error::LinkOutside { .. } => {
                Some("copy the file into the folder; only links to the Hub's cache are followed")
            }
            Error::WeightsBelow { .. } => Some("use that folder instead"),
            Error::EmptyTensors { is_adapter: false, .. } => Some(
                "the weights are in the ZeRO-3 shards: run `zero_to_fp32.py` from the training checkpoint, or train with \
                 `stage3_gather_16bit_weights_on_model_save`",
            ),
            Error::EmptyTensors { is_adapter: true, .. } => Some(
                "run `zero_to_fp32.py` from the training checkpoint and save the adapter again from its result, or train with \
                 `stage3_gather_16bit_weights_on_model_save`",
            ),
            Error::MlxLayout { .. } => Some("convert the checkpoint that it was made from"),
            Error::MlxAdapter { .. } => Some(
                "merge it with `mlx_lm.fuse`, dequantized if the base model is quantized, and convert the result",
            ),
            Error::SeveralAdapters { .. } => {
                Some("save each one with PEFT's `save_pretrained(selected_adapters=[NAME])`")
            }
            Error::BrokenDownload { kind, .. } => Some(kind.hint()),
            Error::NotAFolder => Some("give the folder that holds config.json and the weights"),
            _ => None,
        }
    }
}
