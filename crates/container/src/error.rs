//! Every way in which a file, a plan or an output can be wrong.

use std::{io, path::PathBuf};

use gguf_types::{DTypeError, Shape, ShapeError, list_names};

use crate::{BrokenDownload, keys::KeyProblem};

/// Errors of a GGUF file, a plan, an output or a set of shards.
///
/// Variants about the inside of a file do not contain its path: the code that opened it adds the path once.
/// Offsets are in bytes from the start of the file unless the name says otherwise.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages explain the fields")]
pub enum Error {
    /// The first four bytes are not `GGUF`.
    #[error("not a GGUF file: expected `GGUF` at the start, found `{}`", found.escape_ascii())]
    Magic { found: [u8; 4] },
    /// A file left by a broken download.
    #[error("not a GGUF file: found {}", kind.name())]
    BrokenDownload { kind: BrokenDownload },
    /// An unknown version.
    #[error("unknown GGUF version {found} (expected 1 to 3, in either byte order)")]
    Version {
        /// The version field as read, little-endian.
        found: u32,
    },
    /// The file ends inside something.
    #[error("unexpected end of file in {item}: expected {needed} bytes at offset {offset}, found {left}")]
    Truncated {
        /// Item that was being read.
        item: &'static str,
        offset: u64,
        /// Its length in bytes, at least.
        needed: u64,
        /// Bytes from there to the end of the file.
        left: u64,
    },
    /// A count that exceeds the remaining bytes even for the smallest items.
    #[error("{item} of {count} at offset {offset} does not fit in the remaining {left} bytes")]
    CountTooLarge {
        item: &'static str,
        count: u64,
        offset: u64,
        /// Bytes from there to the end of the file.
        left: u64,
    },
    /// A key or tensor name that is not UTF-8.
    #[error("{item} {index} is not valid UTF-8: `{}`", bytes.escape_ascii())]
    NotUtf8 { item: &'static str, index: u64, bytes: Vec<u8> },
    /// A key that no file may have.
    #[error("metadata key {index}: {problem}")]
    Key { index: u64, problem: KeyProblem },
    /// The same key twice.
    #[error("duplicate metadata key `{key}`")]
    DuplicateKey { key: String },
    /// A value type id that is not one of the 13.
    #[error("metadata key `{key}`: unknown value type {id} (expected 0 to 12)")]
    ValueType { key: String, id: u32 },
    /// A truth value that is neither 0 nor 1.
    #[error("metadata key `{key}`: bool at offset {offset}: expected 0 or 1, found {found}")]
    BadBool { key: String, offset: u64, found: u8 },
    /// Arrays in arrays beyond the limit.
    #[error("metadata key `{key}`: arrays nested deeper than {max}")]
    TooDeep {
        key: String,
        /// Levels of arrays that are read.
        max: usize,
    },
    /// `general.alignment` has another type than u32.
    #[error("metadata key `general.alignment`: expected type u32, found {found}")]
    AlignmentType {
        /// The type as listings name it.
        found: &'static str,
    },
    /// An alignment that cannot be worked with.
    #[error("alignment: expected {expected}, found {found}")]
    Alignment { found: u64, expected: &'static str },
    /// The planned alignment is not the one that readers will find in the metadata.
    #[error("planned alignment {planned} differs from {stated} in `general.alignment`")]
    AlignmentMismatch {
        /// The alignment of the plan.
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
    /// The same tensor name twice.
    #[error("duplicate tensor `{name}`")]
    DuplicateTensor { name: String },
    /// A shape that is not possible, or not in this dtype.
    #[error("tensor `{tensor}`: {source}")]
    Shape { tensor: String, source: ShapeError },
    /// A tensor type that is not known, or no more.
    #[error("tensor `{tensor}`: {source}")]
    DType { tensor: String, source: DTypeError },
    /// A tensor that does not start at a multiple of the alignment.
    #[error("tensor `{tensor}`: data offset {offset} is not a multiple of {alignment}")]
    Misaligned {
        tensor: String,
        /// Its offset in the data section.
        offset: u64,
        alignment: u32,
    },
    /// A tensor that ends beyond what 63 bits can address.
    #[error("tensor `{tensor}`: {n_bytes} bytes at data offset {offset} exceed 63 bits")]
    OffsetOverflow {
        tensor: String,
        /// Its offset in the data section.
        offset: u64,
        n_bytes: u64,
    },
    /// A tensor that ends after the end of the file.
    #[error("tensor `{tensor}`: {n_bytes} bytes at offset {offset} do not fit in a file of {file_len} bytes")]
    OutOfFile {
        tensor: String,
        /// Its offset in the file.
        offset: u64,
        n_bytes: u64,
        file_len: u64,
    },
    /// Two tensors that share bytes.
    #[error("tensor `{second}` starts at data offset {start}, inside `{first}`, which ends at {end}")]
    Overlap {
        /// The tensor that starts first.
        first: String,
        /// The tensor that starts inside it.
        second: String,
        /// End of the first, in the data section.
        end: u64,
        /// Start of the second, in the data section.
        start: u64,
    },
    /// A plan whose file would be longer than 63 bits can say.
    #[error("the planned file size exceeds 63 bits")]
    FileTooLong,
    /// The output is there already.
    #[error("`{}` already exists", path.display())]
    Exists { path: PathBuf },
    /// The output is a folder, a device or a pipe, or the path names no file at all.
    #[error("`{}` cannot be overwritten: not a regular file", path.display())]
    NotAFile { path: PathBuf },
    /// Another process has the temporary file of an output.
    #[error("`{}` is being written by another process", path.display())]
    Busy { path: PathBuf },
    /// A disk is too small for what is to be written.
    #[error("{}: not enough disk space: {needed} bytes are needed, {free} are free", folder.display())]
    NoSpace {
        /// A folder of that disk.
        folder: PathBuf,
        /// Bytes that are to be written.
        needed: u64,
        /// Bytes that there is room for.
        free: u64,
    },
    /// The process may not open as many files as there are outputs.
    #[error("{n_files} outputs need {needed} open files, but the system allows {limit}")]
    OpenFiles {
        n_files: usize,
        /// Outputs, files that are open already, and some to spare.
        needed: u64,
        limit: u64,
    },
    /// The output is a symbolic link that leads nowhere.
    #[error("`{}` links to `{}`, which does not exist", path.display(), target.display())]
    DeadLink { path: PathBuf, target: PathBuf },
    /// The system says no.
    #[error("{}: cannot {action}{}: {source}", path.display(), at_offset(*offset))]
    Io {
        /// The operation: `open`, `create`, `reserve`, `write`, ...
        action: &'static str,
        path: PathBuf,
        /// Offset in the file for writes; number of bytes for reservations.
        offset: Option<u64>,
        source: io::Error,
    },
    /// A file that was read is not the same any more.
    #[error("{}: changed while it was read: {change}", path.display())]
    Changed { path: PathBuf, change: String },
    /// A write outside the planned file; a bug of the caller.
    #[error("write of {len} bytes at offset {offset} is outside the planned {file_len} bytes")]
    WriteOutOfRange { offset: u64, len: u64, file_len: u64 },
    /// The finished file is not as long as planned.
    #[error("`{}`: expected {expected} bytes, found {found}", path.display())]
    Length { path: PathBuf, expected: u64, found: u64 },
    /// One shard of a split model is wrong in itself.
    #[error("shard `{}`: {source}", path.display())]
    Shard { path: PathBuf, source: Box<Error> },
    /// A shard that the others count is not there.
    #[error("shard {no} of {count} is missing: `{}`", path.display())]
    ShardMissing {
        /// The path that was tried.
        path: PathBuf,
        no: u32,
        count: u32,
    },
    /// A split model whose file is not named as a shard, so that the others cannot be found.
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
    /// A `split.*` key says something else than the file names or the other shards.
    #[error("shard `{}`: `{key}`: expected {expected}, found {found}", path.display())]
    ShardKey {
        path: PathBuf,
        key: &'static str,
        /// Value implied by the other shards.
        expected: u64,
        /// Value in the shard, or `missing`.
        found: String,
    },
    /// A `split.*` key that is missing or not a count.
    #[error("shard `{}`: `{key}`: expected a number, found {found}", path.display())]
    ShardCount {
        path: PathBuf,
        key: &'static str,
        /// Value in the shard, or `missing`.
        found: String,
    },
    /// More shards than their numbers can count.
    #[error("{count} shards exceed the limit of 65535")]
    TooManyShards { count: usize },
    /// The file of an earlier edit that was not finished.
    #[error("`{}` exists: an edit of `{}` was interrupted", backup.display(), path.display())]
    UnfinishedEdit {
        path: PathBuf,
        /// Its first bytes as they were before.
        backup: PathBuf,
    },
    /// The work was interrupted.
    #[error("interrupted")]
    Interrupted,
    /// A file that is not a LoRA adapter, or an unsupported kind of adapter.
    #[error("not a supported LoRA adapter: `{key}`: expected {expected}, found {found}")]
    NotAnAdapter {
        key: &'static str,
        /// Its value in a supported adapter.
        expected: &'static str,
        found: String,
    },
    /// A tensor of an adapter that is not half of a pair.
    #[error("tensor `{tensor}`: {problem}")]
    AdapterTensor { tensor: String, problem: &'static str },
    /// An adapter for another architecture.
    #[error("expected an adapter for architecture `{expected}`, found `{found}`")]
    AdapterArchitecture { expected: String, found: String },
    /// Pairs for tensors that the model does not have, or does not multiply with.
    #[error("the adapter changes tensors that are not matrices of the model: {}", list_names(.names))]
    AdapterTargets { names: Vec<String> },
    /// Half of a pair that does not fit the tensor of the model.
    #[error("tensor `{tensor}` of shape {found} does not fit `{target}` of shape {shape}")]
    AdapterShape {
        tensor: String,
        found: Box<Shape>,
        /// The tensor of the model.
        target: String,
        shape: Box<Shape>,
    },
    /// All shards together hold another number of tensors than they say.
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

impl Error {
    /// Advice for the user, shown on a separate line.
    pub fn hint(&self) -> Option<&'static str> {
        Some(match self {
            Error::Magic {
                found: [b'l' | b'f', b'm', b'g', b'g'] | [b't', b'j', b'g', b'g'] | [b'a', b'l', b'g', b'g'],
            } => "the file has a format older than GGUF",
            Error::Magic { found: [b'P', b'K', 3, 4] } => "the file is a zip archive; unpack it first",
            Error::BrokenDownload { kind } => kind.hint(),
            Error::Truncated { .. } | Error::OutOfFile { .. } | Error::CountTooLarge { .. } => {
                "the file may be truncated; download or copy it again"
            }
            Error::DeadLink { .. } => "remove the link, or pass the file that it links to",
            Error::Changed { .. } => "run the command again when no other program changes the file",
            Error::AdapterArchitecture { .. } | Error::AdapterTargets { .. } | Error::AdapterShape { .. } => {
                "use the base model that the adapter was trained on"
            }
            Error::ShardMissing { .. } => "put all shards into one folder under their original names",
            _ => return None,
        })
    }

    pub(crate) fn io(action: &'static str, path: &std::path::Path, source: io::Error) -> Error {
        Error::Io { action, path: path.to_owned(), offset: None, source }
    }
}
