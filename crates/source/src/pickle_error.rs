//! Errors in a pickle or the archive around it.

/// Why a pickle is refused. Places are bytes of the pickle.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PickleError {
    /// The end comes too early.
    #[error("byte {at} of the pickle: {needed} more bytes are needed, the pickle ends")]
    Cut {
        /// The place.
        at: u64,
        /// Bytes that the instruction needs.
        needed: u64,
    },
    /// A version whose instructions are not read.
    #[error("byte {at} of the pickle: protocol {version}, only 2 is read")]
    Protocol {
        /// The place.
        at: u64,
        /// The version.
        version: u8,
    },
    /// An instruction that no pickle of tensors needs.
    #[error("byte {at} of the pickle: instruction {opcode:#04x} has no place in a pickle of tensors")]
    Opcode {
        /// The place.
        at: u64,
        /// The instruction.
        opcode: u8,
    },
    /// A name that no pickle of tensors imports.
    #[error("byte {at} of the pickle imports `{module}.{name}`, which no pickle of tensors needs")]
    Global {
        /// The place.
        at: u64,
        /// The module.
        module: String,
        /// The name.
        name: String,
    },
    /// An instruction takes more values than there are.
    #[error("byte {at} of the pickle: instruction {opcode:#04x} finds too few values on the stack")]
    Stack {
        /// The place.
        at: u64,
        /// The instruction.
        opcode: u8,
    },
    /// An instruction that ends a group of values, without a begin.
    #[error("byte {at} of the pickle: there is no mark on the stack")]
    Mark {
        /// The place.
        at: u64,
    },
    /// A remembered value that was never stored.
    #[error("byte {at} of the pickle: value {number} of the memo was never stored")]
    Memo {
        /// The place.
        at: u64,
        /// Its number.
        number: u32,
    },
    /// An integer beyond 64 bits.
    #[error("byte {at} of the pickle: an integer of {bytes} bytes, at most 64 bits are read")]
    Long {
        /// The place.
        at: u64,
        /// Its bytes.
        bytes: u64,
    },
    /// A text that is too long or not UTF-8.
    #[error("byte {at} of the pickle: a text of {bytes} bytes that is not UTF-8 or longer than 65536")]
    Text {
        /// The place.
        at: u64,
        /// Its bytes.
        bytes: u64,
    },
    /// A value of the wrong kind.
    #[error("byte {at} of the pickle: expected {expected}")]
    Kind {
        /// The place.
        at: u64,
        /// Operand that the instruction needs.
        expected: &'static str,
    },
    /// More than a pickle of tensors needs.
    #[error(
        "the pickle has {values} values in its first {bytes} bytes, at most 8388608 values and 67108864 bytes are read"
    )]
    TooLarge {
        /// Bytes read so far.
        bytes: u64,
        /// Values so far.
        values: u64,
    },
    /// Not the calls and values that make a tensor.
    #[error("tensor `{tensor}`: {problem}")]
    Tensor {
        /// The tensor.
        tensor: String,
        /// Problem with it.
        problem: String,
    },
    /// Not a dictionary of tensors.
    #[error("expected a dictionary of tensors, {found}")]
    NotAStateDict {
        /// Found value.
        found: String,
    },
    /// A legacy file whose parts contradict each other.
    #[error("{problem}")]
    Legacy {
        /// Problem.
        problem: String,
    },
}

/// Why an archive is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ZipError {
    /// The directory at the end of the archive, or a header that it points to, cannot be read.
    #[error("the archive's directory is broken: {problem}")]
    Broken {
        /// Message of the zip reader.
        problem: String,
    },
    /// Torch stores entries as they are.
    #[error("entry `{entry}` is compressed or encrypted, entries of a checkpoint are stored as they are")]
    NotStored {
        /// The entry.
        entry: String,
    },
    /// Bytes past the end of the file.
    #[error("entry `{entry}` takes bytes {begin} to {end}, the file has {file_bytes}")]
    OutOfFile {
        /// The entry.
        entry: String,
        /// First byte.
        begin: u64,
        /// End.
        end: u64,
        /// Bytes of the file.
        file_bytes: u64,
    },
    /// Two entries with bytes in common.
    #[error("entries `{first}` and `{second}` overlap at byte {at}")]
    Overlap {
        /// The one that begins first.
        first: String,
        /// The other.
        second: String,
        /// Start of the other one.
        at: u64,
    },
    /// Two entries of one name.
    #[error("entry `{entry}` is there twice")]
    Twice {
        /// The entry.
        entry: String,
    },
    /// No entry of this name.
    #[error("there is no entry `{entry}`")]
    Missing {
        /// The entry.
        entry: String,
    },
    /// A program, not a checkpoint.
    #[error("entry `{entry}` makes this a TorchScript archive, which holds a program and not only weights")]
    TorchScript {
        /// The entry.
        entry: String,
    },
    /// Bytes in the other order.
    #[error("entry `{entry}` says that numbers are stored `{found}`, only `little` endian is read")]
    ByteOrder {
        /// The entry.
        entry: String,
        /// Found value.
        found: String,
    },
}
