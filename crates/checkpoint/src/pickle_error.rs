//! Errors in a pickle or the archive around it.

/// Reason for refusing a pickle. Positions are bytes of the pickle.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages explain the fields")]
pub enum PickleError {
    #[error("byte {at} of the pickle: the pickle ends, expected {needed} more bytes")]
    Cut { at: u64, needed: u64 },
    #[error("byte {at} of the pickle: expected protocol 2, found {version}")]
    Protocol { at: u64, version: u8 },
    /// An instruction that pickles of tensors do not need.
    #[error("byte {at} of the pickle: opcode {opcode:#04x} is not supported")]
    Opcode { at: u64, opcode: u8 },
    /// An import that pickles of tensors do not need.
    #[error("byte {at} of the pickle imports `{module}.{name}`, which is not allowed")]
    Global { at: u64, module: String, name: String },
    /// An instruction needs more values than the stack has.
    #[error("byte {at} of the pickle: too few values on the stack for opcode {opcode:#04x}")]
    Stack { at: u64, opcode: u8 },
    /// The end of a group of values without a mark.
    #[error("byte {at} of the pickle: missing mark on the stack")]
    Mark { at: u64 },
    /// A memo entry that was never stored.
    #[error("byte {at} of the pickle: memo entry {number} was never stored")]
    Memo { at: u64, number: u32 },
    /// An integer beyond 64 bits.
    #[error("byte {at} of the pickle: integer of {bytes} bytes, expected at most 8")]
    Long { at: u64, bytes: u64 },
    /// A text that is too long or not UTF-8.
    #[error("byte {at} of the pickle: string of {bytes} bytes is not valid UTF-8 or longer than 65536 bytes")]
    Text { at: u64, bytes: u64 },
    /// A value of the wrong kind.
    #[error("byte {at} of the pickle: expected {expected}")]
    Kind { at: u64, expected: &'static str },
    /// More than a pickle of tensors needs.
    #[error(
        "the pickle is too large: {values} values in {bytes} bytes exceed the limit of 8388608 values or \
            67108864 bytes"
    )]
    TooLarge { bytes: u64, values: u64 },
    /// Calls and values that do not make a tensor.
    #[error("tensor `{tensor}`: {problem}")]
    Tensor { tensor: String, problem: String },
    #[error("expected a dictionary of tensors, {found}")]
    NotAStateDict { found: String },
    /// A legacy file whose parts contradict each other.
    #[error("{problem}")]
    Legacy { problem: String },
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages explain the fields")]
pub enum ZipError {
    /// The directory at the end of the archive, or a header that it points to, cannot be read.
    #[error("invalid archive directory: {problem}")]
    Broken { problem: String },
    /// A compressed entry; torch stores entries uncompressed.
    #[error("entry `{entry}` is compressed or encrypted, expected a stored entry")]
    NotStored { entry: String },
    /// Bytes past the end of the file.
    #[error("entry `{entry}`: bytes {begin} to {end} exceed the file size of {file_bytes} bytes")]
    OutOfFile { entry: String, begin: u64, end: u64, file_bytes: u64 },
    #[error("entries `{first}` and `{second}` overlap at byte {at}")]
    Overlap {
        /// The entry that begins first.
        first: String,
        second: String,
        at: u64,
    },
    /// Two entries have the same name.
    #[error("duplicate entry `{entry}`")]
    Twice { entry: String },
    #[error("missing entry `{entry}`")]
    Missing { entry: String },
    /// A TorchScript program, not a checkpoint.
    #[error(
        "TorchScript archive (entry `{entry}`), which contains a program in addition to weights, is not supported"
    )]
    TorchScript { entry: String },
    #[error("entry `{entry}`: expected byte order `little`, found `{found}`")]
    ByteOrder { entry: String, found: String },
}
