use std::{io, path::PathBuf};

use gguf_types::{DTypeError, Fields as _, Problem, Shape, ShapeError, Words, list_names, words};

use crate::{BrokenDownload, keys::KeyProblem};

/// Errors of a GGUF file, a plan, an output or a set of shards.
///
/// Variants about the contents of a file do not include its path, which the code that opened it adds. Offsets
/// are in bytes from the start of the file unless stated otherwise.
#[derive(Debug, thiserror::Error, gguf_types::Fields)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages explain the fields")]
pub enum Error {
    /// The first four bytes are not `GGUF`.
    #[error("not a GGUF file: expected `GGUF` at the start, found `{}`", found.escape_ascii())]
    #[fact(expected = "GGUF", found = found.escape_ascii())]
    Magic { found: [u8; 4] },
    /// A file left by a broken download.
    #[error("not a GGUF file: found {}", kind.name())]
    BrokenDownload { kind: BrokenDownload },
    #[error("unknown GGUF version {found} (expected 1 to 3, in either byte order)")]
    #[fact(expected = "a version from 1 to 3")]
    Version {
        /// Version field, read as little endian.
        found: u32,
    },
    /// The file ends within an item.
    #[error("unexpected end of file in {item}: expected {needed} bytes at offset {offset}, found {left}")]
    #[fact(expected = needed, found = left)]
    Truncated {
        item: &'static str,
        offset: u64,
        /// Minimum length in bytes.
        needed: u64,
        left: u64,
    },
    /// A count that exceeds the remaining bytes even for the smallest items.
    #[error("{item} of {count} at offset {offset} does not fit in the remaining {left} bytes")]
    #[fact(found = count)]
    CountTooLarge { item: &'static str, count: u64, offset: u64, left: u64 },
    /// A key or tensor name that is not UTF-8.
    #[error("{item} {index} is not valid UTF-8: `{}`", bytes.escape_ascii())]
    NotUtf8 { item: &'static str, index: u64, bytes: Vec<u8> },
    #[error("metadata key {index}: {problem}")]
    Key { index: u64, problem: KeyProblem },
    #[error("duplicate metadata key `{key}`")]
    DuplicateKey { key: String },
    /// The id of a value type is not one of the 13.
    #[error("metadata key `{key}`: unknown value type {id} (expected 0 to 12)")]
    ValueType { key: String, id: u32 },
    /// A truth value that is neither 0 nor 1.
    #[error("metadata key `{key}`: bool at offset {offset}: expected 0 or 1, found {found}")]
    #[fact(expected = "0 or 1")]
    BadBool { key: String, offset: u64, found: u8 },
    #[error("metadata key `{key}`: arrays nested deeper than {max}")]
    TooDeep {
        key: String,
        /// Maximum depth.
        max: usize,
    },
    /// `general.alignment` has another type than u32.
    #[error("metadata key `general.alignment`: expected type u32, found {found}")]
    #[fact(key = "general.alignment", expected = "u32")]
    AlignmentType { found: &'static str },
    #[error("alignment: expected {expected}, found {found}")]
    #[fact(key = "general.alignment")]
    Alignment { found: u64, expected: &'static str },
    /// The planned alignment differs from the one that readers find in the metadata.
    #[error("planned alignment {planned} differs from {stated} in `general.alignment`")]
    AlignmentMismatch {
        planned: u32,
        /// The alignment of the metadata, or the default.
        stated: u32,
    },
    /// A tensor without a name; refused in plans only.
    #[error("tensor {index}: missing name")]
    TensorNameEmpty { index: u64 },
    /// A tensor name beyond the limit.
    #[error("name of tensor {index}: expected at most {max} bytes, found {len}")]
    TensorNameTooLong { index: u64, len: u64, max: u64 },
    /// Two tensors have the same name.
    #[error("duplicate tensor `{name}`")]
    #[fact(tensor = name)]
    DuplicateTensor { name: String },
    /// The shape is impossible, or does not fit the dtype.
    #[error("tensor `{tensor}`: {source}")]
    Shape { tensor: String, source: ShapeError },
    /// The tensor type is unknown or was removed.
    #[error("tensor `{tensor}`: {source}")]
    DType { tensor: String, source: DTypeError },
    /// The offset is not a multiple of the alignment.
    #[error("tensor `{tensor}`: data offset {offset} is not a multiple of {alignment}")]
    #[fact(expected = format_args!("a multiple of {alignment}"), found = offset)]
    Misaligned {
        tensor: String,
        /// Its offset in the data section.
        offset: u64,
        alignment: u32,
    },
    /// The end of a tensor does not fit 63 bits.
    #[error("tensor `{tensor}`: {n_bytes} bytes at data offset {offset} exceed 63 bits")]
    OffsetOverflow { tensor: String, offset: u64, n_bytes: u64 },
    /// A tensor ends after the end of the file.
    #[error("tensor `{tensor}`: {n_bytes} bytes at offset {offset} do not fit in a file of {file_len} bytes")]
    #[fact(expected = offset.saturating_add(*n_bytes), found = file_len)]
    OutOfFile {
        tensor: String,
        /// Its offset in the file.
        offset: u64,
        n_bytes: u64,
        file_len: u64,
    },
    #[error("tensor `{second}` starts at data offset {start}, inside `{first}`, which ends at {end}")]
    #[fact(tensor = second)]
    Overlap {
        /// Tensor that starts first.
        first: String,
        second: String,
        /// End of the first, in the data section.
        end: u64,
        /// Start of the second, in the data section.
        start: u64,
    },
    /// The length of the planned file does not fit 63 bits.
    #[error("the planned file size exceeds 63 bits")]
    FileTooLong,
    #[error("`{}` already exists", path.display())]
    Exists { path: PathBuf },
    /// The output is a folder, a device or a pipe, or the path has no file name.
    #[error("`{}` cannot be overwritten: not a regular file", path.display())]
    NotAFile { path: PathBuf },
    /// Another process has the temporary file of an output open.
    #[error("`{}` is being written by another process", path.display())]
    Busy { path: PathBuf },
    /// The disk is too small for the output.
    #[error("{}: not enough disk space: {needed} bytes are needed, {free} are free", folder.display())]
    #[fact(expected = needed, found = free)]
    NoSpace { folder: PathBuf, needed: u64, free: u64 },
    /// The limit of open files is too low for the number of outputs.
    #[error("{n_files} outputs need {needed} open files, but the system allows {limit}")]
    #[fact(expected = needed, found = limit)]
    OpenFiles {
        n_files: usize,
        /// Outputs, files that are open already, and a reserve.
        needed: u64,
        limit: u64,
    },
    /// The output is a dangling symbolic link.
    #[error("`{}` links to `{}`, which does not exist", path.display(), target.display())]
    DeadLink { path: PathBuf, target: PathBuf },
    #[error("{}: cannot {action}{}: {source}", path.display(), at_offset(*offset))]
    Io {
        action: &'static str,
        path: PathBuf,
        /// Offset in the file for writes; number of bytes for reservations.
        offset: Option<u64>,
        source: io::Error,
    },
    /// A source file has changed.
    #[error("{}: changed while it was read: {change}", path.display())]
    #[fact(found = change)]
    Changed { path: PathBuf, change: String },
    /// A write outside the planned file; a bug of the caller.
    #[error("write of {len} bytes at offset {offset} is outside the planned {file_len} bytes")]
    WriteOutOfRange { offset: u64, len: u64, file_len: u64 },
    /// The finished file is not as long as planned.
    #[error("`{}`: expected {expected} bytes, found {found}", path.display())]
    Length { path: PathBuf, expected: u64, found: u64 },
    /// A shard of a split model is invalid.
    #[error("shard `{}`: {source}", path.display())]
    Shard { path: PathBuf, source: Box<Error> },
    #[error("shard {no} of {count} is missing: `{}`", path.display())]
    ShardMissing { path: PathBuf, no: u32, count: u32 },
    /// A split model whose file name has no shard number, so that the others cannot be found.
    #[error(
        "`{}` is shard {no} of {count}, expected a name that ends with `-{no:05}-of-{count:05}.gguf`",
        path.display()
    )]
    ShardName {
        path: PathBuf,
        /// Shard number according to the metadata, from 1.
        no: u32,
        count: u32,
    },
    /// A `split.*` key contradicts the file names or the other shards.
    #[error("shard `{}`: `{key}`: expected {expected}, found {found}", path.display())]
    ShardKey {
        path: PathBuf,
        key: &'static str,
        /// Value implied by the other shards.
        expected: u64,
        /// Value in the shard, or `missing`.
        found: String,
    },
    /// A `split.*` key is missing or not a count.
    #[error("shard `{}`: `{key}`: expected a number, found {found}", path.display())]
    #[fact(expected = "an integer of 0 or more")]
    ShardCount {
        path: PathBuf,
        key: &'static str,
        /// Value in the shard, or `missing`.
        found: String,
    },
    /// More shards than the keys can count.
    #[error("{count} shards exceed the limit of 65535")]
    TooManyShards { count: usize },
    /// An earlier edit of the file was not finished.
    #[error("`{}` exists: an edit of `{}` was interrupted", backup.display(), path.display())]
    UnfinishedEdit { path: PathBuf, backup: PathBuf },
    #[error("interrupted")]
    Interrupted,
    /// A file that is not a LoRA adapter, or an unsupported kind of adapter.
    #[error("not a supported LoRA adapter: `{key}`: expected {expected}, found {found}")]
    NotAnAdapter { key: &'static str, expected: &'static str, found: String },
    /// A tensor of an adapter that is not half of a pair.
    #[error("tensor `{tensor}`: {problem}")]
    AdapterTensor { tensor: String, problem: &'static str },
    #[error("expected an adapter for architecture `{expected}`, found `{found}`")]
    AdapterArchitecture { expected: String, found: String },
    /// Pairs for tensors that the model does not have or does not multiply with.
    #[error("the adapter changes tensors that are not matrices of the model: {}", list_names(.names))]
    AdapterTargets { names: Vec<String> },
    /// Half of a pair does not fit the tensor of the model.
    #[error("tensor `{tensor}` of shape {found} does not fit `{target}` of shape {shape}")]
    AdapterShape { tensor: String, found: Box<Shape>, target: String, shape: Box<Shape> },
    /// The shards do not have the stated number of tensors.
    #[error("expected {expected} tensors (`split.tensors.count`), found {found} in the shards")]
    ShardTensors {
        /// Value in the first shard.
        expected: u64,
        found: u64,
    },
}

fn at_offset(offset: Option<u64>) -> String {
    offset.map(|offset| format!(" at {offset} bytes")).unwrap_or_default()
}

impl Problem for Error {
    fn hint(&self) -> Option<Words> {
        Some(match self {
            Error::Magic {
                found: [b'l' | b'f', b'm', b'g', b'g'] | [b't', b'j', b'g', b'g'] | [b'a', b'l', b'g', b'g'],
            } => "the file has a format older than GGUF".into(),
            Error::Magic { found: [b'P', b'K', 3, 4] } => "the file is a zip archive; unpack it first".into(),
            Error::BrokenDownload { kind } => kind.hint().into(),
            Error::Truncated { .. } | Error::OutOfFile { .. } | Error::CountTooLarge { .. } => {
                "the file may be truncated; download or copy it again".into()
            }
            Error::Exists { .. } => words!("use [-force] to overwrite it"),
            Error::OpenFiles { needed, .. } => {
                format!("raise the limit with `ulimit -n {needed}`, or split into fewer files").into()
            }
            Error::UnfinishedEdit { path, backup } => {
                let (path, backup) = (path.display(), backup.display());
                format!(
                    "restore the old header with `dd if={backup} of={path} conv=notrunc`, then remove {backup}"
                )
                .into()
            }
            Error::DeadLink { .. } => "remove the link, or pass the file that it links to".into(),
            Error::Changed { .. } => "run the command again when no other program changes the file".into(),
            Error::AdapterArchitecture { .. } | Error::AdapterTargets { .. } | Error::AdapterShape { .. } => {
                "use the base model that the adapter was trained on".into()
            }
            Error::ShardMissing { .. } => "put all shards into one folder under their original names".into(),
            // Shards only of types: their other hints are about the file that was given.
            Error::Shard { source, .. } => return source.inner()?.hint(),
            _ => return self.inner()?.hint(),
        })
    }

    fn is_interruption(&self) -> bool {
        matches!(self, Error::Interrupted)
    }

    fn names_its_file(&self) -> bool {
        matches!(
            self,
            Error::Io { .. }
                | Error::Exists { .. }
                | Error::NotAFile { .. }
                | Error::DeadLink { .. }
                | Error::Changed { .. }
                | Error::OpenFiles { .. }
                | Error::UnfinishedEdit { .. }
                | Error::Length { .. }
                | Error::Shard { .. }
                | Error::ShardMissing { .. }
                | Error::ShardName { .. }
                | Error::Interrupted
        )
    }
}

impl Error {
    pub(crate) fn io(action: &'static str, path: &std::path::Path, source: io::Error) -> Error {
        Error::Io { action, path: path.to_owned(), offset: None, source }
    }
}
