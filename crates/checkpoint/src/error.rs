use std::io;

use gguf_container::BrokenDownload;
use gguf_types::{Fields as _, Problem, Words, counted, list_names};

use crate::{Dtype, PickleError, ReadError, ZipError};

/// Error in a checkpoint. File names are relative to the folder; the caller adds its path.
#[derive(Debug, thiserror::Error, gguf_types::Fields)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages explain the fields")]
pub enum Error {
    #[error("{}cannot open: {error}", if file == "." { String::new() } else { format!("`{file}`: ") })]
    Io {
        /// The file, or `.` for the folder itself.
        file: String,
        error: io::Error,
    },
    /// A remnant of a broken download instead of a file.
    #[error("`{file}` is {}, not the file itself", kind.name())]
    BrokenDownload { file: String, kind: BrokenDownload },
    /// The source is not a folder.
    #[error("not a folder")]
    NotAFolder,
    /// A single file with a text model of CLIP.
    #[error("a text encoder of CLIP, for which GGUF has no settled layout")]
    Clip,
    /// A pipeline without a diffusion model.
    #[error("no diffusion model found in the pipeline; looked for {}", .expected.join(", "))]
    #[fact(expected = expected.join(", "))]
    NoPipelineModel { expected: &'static [&'static str] },
    /// No weights, or several weights files without an index.
    #[error("expected one file of weights, found {}", if files.is_empty() { "none".to_owned() } else { list_names(files) })]
    SeveralWeights { files: Vec<String> },
    /// A file that is one of several shards.
    #[error("`{file}`: shard {number} of {count}")]
    OneShard { file: String, number: u32, count: u32 },
    /// No file of any known format.
    #[error("no weights found; looked for {}", .expected.join(", "))]
    NoWeights { expected: Vec<&'static str> },
    /// No weights, but a subfolder has some.
    #[error("no weights found in the folder; its subfolder `{folder}` has weights")]
    WeightsBelow {
        /// The subfolder, relative to the folder.
        folder: String,
    },
    /// Known format that cannot be read yet.
    #[error("`{file}`: weights in {format} are not supported yet")]
    NotReadYet { format: &'static str, file: String },
    /// Weights in a format of another program.
    #[error("`{file}`: weights in {format} are not supported")]
    Foreign { format: &'static str, file: String, advice: &'static str },
    /// A weights file cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// Known quantization method that cannot be read.
    #[error("weights quantized by {method} are not supported; recognized by {recognized_by}")]
    #[fact(found = method)]
    MethodNotRead { method: &'static str, recognized_by: &'static str, advice: &'static str },
    /// Weights with an unknown quantization method.
    #[error("`{file}`: weights quantized by `{method}` are not supported")]
    #[fact(found = method)]
    UnknownMethod { file: String, method: String },
    /// Codes that match neither a config nor other tensors.
    #[error(
        "tensor `{tensor}`: {dtype} values of shape {shape:?} look like quantized codes of an unknown format"
    )]
    #[fact(found = dtype)]
    CodesOfNoMethod { tensor: String, dtype: Dtype, shape: Vec<u64> },
    #[error("tensor `{tensor}`: {dtype} codes without scales")]
    #[fact(found = dtype)]
    CodesWithoutScales { tensor: String, dtype: Dtype },
    /// Scales, zeros or similar parts without matching codes.
    #[error("tensor `{tensor}`: part of quantized weights whose codes are missing or have the wrong type")]
    ScalesWithoutCodes { tensor: String },
    /// A part of quantized weights does not fit the codes.
    #[error("tensor `{tensor}`: expected {expected} for `{codes}` of shape {shape:?}, found shape {found:?}")]
    PartShape { tensor: String, found: Vec<u64>, expected: String, codes: String, shape: Vec<u64> },
    /// A part of quantized weights does not have the type, size or content that its form requires.
    #[error("tensor `{tensor}`: expected {expected}, found {found}")]
    PartForm { tensor: String, expected: String, found: String },
    /// A part of quantized weights is missing.
    #[error("missing tensor `{tensor}`, which belongs to the codes `{codes}`")]
    PartMissing { tensor: String, codes: String },
    /// A part of quantized weights is too small for the codes.
    #[error("tensor `{tensor}`: expected {expected} bytes, found {found}")]
    PartBytes { tensor: String, expected: u64, found: u64 },
    /// Invalid number in a part of quantized weights.
    #[error("tensor `{tensor}`: element {index}: expected {expected}, found {found}")]
    PartValue { tensor: String, index: u64, expected: String, found: i64 },
    /// Tensors without elements.
    #[error("{} without data: {}; the {} was saved under DeepSpeed ZeRO-3 without gathering its weights", counted(names.len(), "tensor"), list_names(names), if *is_adapter { "adapter" } else { "model" })]
    EmptyTensors {
        names: Vec<String>,
        /// True for tensors of an adapter.
        is_adapter: bool,
    },
    /// A checkpoint of mlx-lm whose weights differ from Hugging Face's form.
    #[error("MLX checkpoint of `{family}` is not supported: {difference}")]
    MlxLayout { family: String, difference: &'static str },
    /// An mlx-lm adapter without an equivalent in PEFT.
    #[error("MLX adapter: {problem}")]
    MlxAdapter { problem: String },
    /// A file with tensors of several adapters.
    #[error("the file contains {} adapters: {}", names.len(), list_names(names))]
    SeveralAdapters { names: Vec<String> },
    #[error("missing file `{file}`")]
    MissingFile { file: String },
    /// A small file is too large to be one.
    #[error("`{file}`: {found} bytes exceed the limit of {limit}")]
    FileTooLarge { file: String, found: u64, limit: u64 },
    /// A file is not JSON.
    #[error("`{file}`: {error}")]
    Json {
        file: String,
        /// Problem, with line and column.
        error: serde_json::Error,
    },
    #[error("`{file}`: expected {expected}, found {found}")]
    JsonForm {
        file: String,
        /// Expected value, with its location.
        expected: String,
        found: String,
    },
    /// The file ends inside the header.
    #[error("`{file}`: expected a header of {expected} bytes, but the file has {found}")]
    HeaderCut { file: String, expected: u64, found: u64 },
    /// The header is longer than the format's limit.
    #[error("`{file}`: header of {found} bytes exceeds the limit of {limit}")]
    HeaderTooLarge { file: String, found: u64, limit: u64 },
    #[error("`{file}`: header{}: {error}", .tensor.as_ref().map(|t| format!(" at tensor `{t}`")).unwrap_or_default())]
    Header { file: String, tensor: Option<String>, error: serde_json::Error },
    /// Two tensors have the same name.
    #[error("tensor `{tensor}` is in both `{first}` and `{second}`")]
    #[fact(file = first)]
    DuplicateTensor {
        tensor: String,
        /// File of the first.
        first: String,
        /// File of the second; may be the same one.
        second: String,
    },
    #[error("`{file}`: tensor `{tensor}`: unknown dtype `{found}`")]
    UnknownDtype { file: String, tensor: String, found: String },
    /// The size does not fit 64 bits or ends inside a byte.
    #[error("`{file}`: tensor `{tensor}`: the size of shape {shape:?} of {dtype} is out of range")]
    #[fact(found = shape)]
    BadShape { file: String, tensor: String, shape: Vec<u64>, dtype: Dtype },
    /// Offsets do not match the shape.
    #[error(
        "`{file}`: tensor `{tensor}`: shape {shape:?} of {dtype} needs {expected} bytes, but the header \
            states bytes {begin} to {end}"
    )]
    #[fact(found = end.saturating_sub(*begin))]
    SizeMismatch {
        file: String,
        tensor: String,
        shape: Vec<u64>,
        dtype: Dtype,
        expected: u64,
        begin: u64,
        end: u64,
    },
    /// A tensor does not begin at the end of the previous one: a hole or an overlap.
    #[error(
        "`{file}`: tensor `{tensor}`: expected data offset {expected}, where the previous tensor ends, found {found}"
    )]
    NotContiguous { file: String, tensor: String, expected: u64, found: u64 },
    /// The last tensor does not end at the end of the file.
    #[error("`{file}`: expected {expected} bytes (header and tensors), found {found}")]
    FileLength { file: String, expected: u64, found: u64 },
    /// A weights file required by the index or by its siblings' numbering is missing.
    #[error("missing weight file `{file}`: {reason}")]
    MissingShard { file: String, reason: String },
    /// The index points outside the folder.
    #[error("`{index}`: weight file `{file}` is not in the folder itself")]
    ShardOutside { index: String, file: String },
    /// A file of the folder is a link to a file elsewhere.
    #[error("`{file}` links to `{to}`, outside the folder")]
    LinkOutside { file: String, to: String },
    /// The index and the files have different tensors.
    #[error("`{index}` does not match the weight files: {}", mismatch(.absent, .unlisted))]
    #[fact(file = index)]
    IndexMismatch {
        index: String,
        /// Tensors that only the index lists, sorted.
        absent: Vec<String>,
        /// Tensors that only the files have, sorted.
        unlisted: Vec<String>,
    },
    /// The pickle does not consist of plain tensors.
    #[error("`{file}`: {problem}")]
    Pickle { file: String, problem: PickleError },
    /// The archive was not written by `torch.save`.
    #[error("`{file}`: {problem}")]
    Zip { file: String, problem: ZipError },
    /// Neither of the formats of `torch.save`.
    #[error("`{file}` was not written by torch.save: found {found}")]
    NotAPickle { file: String, found: &'static str },
    /// Shards of one matrix do not match.
    #[error("`{files}`: tensor `{tensor}`: {problem}")]
    #[fact(file = files)]
    ShardsDiffer { files: String, tensor: String, problem: String },
    /// Codes of quantized weights that are not consecutive in their file.
    #[error("tensor `{tensor}`: weights quantized by {method} with non-contiguous strides are not supported")]
    StridedCodes { tensor: String, method: &'static str },
    /// Files without tensors.
    #[error("`{file}` does not contain tensors")]
    NoTensors {
        /// The index or the weights file.
        file: String,
    },
}

fn mismatch(absent: &[String], unlisted: &[String]) -> String {
    let mut parts = Vec::new();
    if !absent.is_empty() {
        parts.push(format!("no file contains {}", list_names(absent)));
    }
    if !unlisted.is_empty() {
        parts.push(format!("the index does not list {}", list_names(unlisted)));
    }
    parts.join("; ")
}

impl Problem for Error {
    fn hint(&self) -> Option<Words> {
        let hint = match self {
            Error::MethodNotRead { advice, .. } | Error::Foreign { advice, .. } => advice,
            Error::CodesOfNoMethod { .. } => {
                "use a folder with the `quantization_config` and all tensors of these weights, or the \
                    original checkpoint"
            }
            Error::UnknownMethod { .. } => {
                "convert the checkpoint that these weights were quantized from; if they are not quantized, \
                    remove the entry"
            }
            Error::HeaderCut { .. } | Error::FileLength { .. } => {
                "download the file again, and compare its size with the one on the model page"
            }
            Error::MissingShard { .. } => "download the missing file into the folder",
            Error::IndexMismatch { .. } => {
                "the folder may mix two downloads, or a file may be missing; download the folder again"
            }
            Error::DuplicateTensor { first, second, .. } if first != second => {
                "remove one of the two files, or add an index that lists the file of each tensor"
            }
            Error::Json { .. } => {
                "if the file starts with `version https://git-lfs` or `<html>`, download it again; \
                    otherwise correct the JSON"
            }
            Error::Header { .. } => {
                "download the file again; it may be damaged, a Git LFS pointer or a web page"
            }
            Error::MissingFile { file } if file.starts_with("adapter_") => {
                "use the complete adapter folder: adapter_config.json and the weights"
            }
            Error::MissingFile { .. } => "use the complete checkpoint folder, including all small files",
            Error::Pickle {
                problem: PickleError::Global { .. } | PickleError::NotAStateDict { .. }, ..
            } => "save only the state dict, with `torch.save(model.state_dict(), file)`, or use safetensors",
            Error::Zip { problem: ZipError::TorchScript { .. }, .. } => {
                "load the file with torch.jit.load and save its state dict"
            }
            Error::NotAPickle { .. }
            | Error::Zip { problem: ZipError::OutOfFile { .. } | ZipError::Broken { .. }, .. } => {
                "download the file again; if it starts with `version https://git-lfs` or `<html>`, it is a \
                    placeholder or an error page"
            }
            Error::LinkOutside { .. } => {
                "copy the file into the folder; only links to the local Hugging Face cache are followed"
            }
            Error::WeightsBelow { .. } => "use that folder instead",
            Error::Clip => "ComfyUI and stable-diffusion.cpp read it as safetensors",
            Error::OneShard { .. } => "use the folder with all shards and their index",
            Error::SeveralWeights { files } if !files.is_empty() => {
                "use one of these files instead of the folder"
            }
            Error::EmptyTensors { is_adapter: false, .. } => {
                "the weights are in the ZeRO-3 shards: run `zero_to_fp32.py` from the training checkpoint, \
                    or train with `stage3_gather_16bit_weights_on_model_save`"
            }
            Error::EmptyTensors { is_adapter: true, .. } => {
                "run `zero_to_fp32.py` from the training checkpoint and save the adapter again from its \
                    result, or train with `stage3_gather_16bit_weights_on_model_save`"
            }
            Error::MlxLayout { .. } => "convert the original checkpoint",
            Error::MlxAdapter { .. } => {
                "merge it with `mlx_lm.fuse`, dequantized if the base model is quantized, and convert the result"
            }
            Error::SeveralAdapters { .. } => {
                "save each one with PEFT's `save_pretrained(selected_adapters=[NAME])`"
            }
            Error::BrokenDownload { kind, .. } => kind.hint(),
            Error::NotAFolder => "use the folder that contains the weights and their config",
            _ => return self.inner()?.hint(),
        };
        Some(hint.into())
    }
}
