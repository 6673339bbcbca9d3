//! Checks of a file whose header can be read.
//!
//! The reader accepts everything that is unambiguous; the reference and the specification require more. Each
//! difference is a finding here.
//!
//! Sources: `gguf_init_from_reader` in `ggml/src/gguf.cpp` (llama-cpp-python 0.3.36) for refusals, "GGUF v3
//! specification" for requirements.

use gguf_types::{DType, GGML_MAX_DIMS};

use crate::{
    Array, Endian, File, KeyProblem, MAX_REFERENCE_TENSOR_NAME_BYTES, SPLIT_COUNT_KEY, Value, check_key,
};

/// Severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Informative.
    Note,
    /// Accepted by some programs or documents, but not recommended.
    Warning,
    /// The file is damaged, or inference programs refuse it.
    Error,
}

/// A problem or peculiarity of a container.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages explain the fields")]
pub enum Finding {
    /// A version that the reference no longer loads.
    #[error("version {version}: llama.cpp loads only versions 2 and 3")]
    OldVersion { version: u32 },
    /// Big endian, used by few machines.
    #[error("big-endian file: only big-endian machines load it")]
    BigEndian,
    /// An alignment that the specification does not allow.
    #[error("alignment {alignment} is not a multiple of 8")]
    Alignment { alignment: u32 },
    #[error("{0}")]
    Key(KeyProblem),
    /// Nested arrays, which the reference does not read.
    #[error("key `{key}`: llama.cpp does not read arrays of arrays")]
    NestedArray { key: String },
    /// A text that is not UTF-8.
    #[error("the string of key `{key}` is not valid UTF-8")]
    NotUtf8 { key: String },
    /// A tensor name that the reference refuses.
    #[error("tensor `{tensor}`: the name has {len} bytes; llama.cpp supports at most {max}", max = MAX_REFERENCE_TENSOR_NAME_BYTES)]
    LongName { tensor: String, len: usize },
    /// More dimensions than the reference loads.
    #[error("tensor `{tensor}`: {n_dims} dimensions; llama.cpp supports at most {max}", max = GGML_MAX_DIMS)]
    ManyDims { tensor: String, n_dims: usize },
    /// A tensor without a name.
    #[error("tensor {index}: missing name")]
    NoName { index: usize },
    /// A tensor without elements.
    #[error("tensor `{tensor}` has no elements")]
    NoElements { tensor: String },
    /// A type that is not used for weights.
    #[error("tensor `{tensor}`: type {dtype} is for activations and not valid in a file")]
    ActivationType { tensor: String, dtype: DType },
    /// A tensor does not begin at the end of the previous one.
    #[error(
        "tensor `{tensor}`: expected offset {expected}, right after the previous tensor, found {found}; \
            llama.cpp rejects the file"
    )]
    Gap {
        tensor: String,
        /// End of the previous tensor, including padding, in the data section.
        expected: u64,
        found: u64,
    },
    /// Padding that is not zero.
    #[error("padding at byte {offset}: expected zero, found 0x{byte:02x}")]
    Padding {
        offset: u64,
        /// First byte that is not zero.
        byte: u8,
    },
    /// The file ends inside the padding of its last tensor.
    #[error("{missing} of the {padding} bytes of padding after the last tensor are missing")]
    CutPadding { missing: u64, padding: u64 },
    #[error("{n_bytes} bytes after the last tensor are unused")]
    Trailing { n_bytes: u64 },
}

impl Finding {
    /// Severity of the finding.
    pub fn severity(&self) -> Severity {
        match self {
            Finding::OldVersion { .. }
            | Finding::LongName { .. }
            | Finding::ManyDims { .. }
            | Finding::Gap { .. }
            | Finding::CutPadding { .. } => Severity::Error,
            Finding::BigEndian => Severity::Note,
            _ => Severity::Warning,
        }
    }

    /// Machine-readable name.
    pub fn code(&self) -> &'static str {
        match self {
            Finding::OldVersion { .. } => "old_version",
            Finding::BigEndian => "big_endian",
            Finding::Alignment { .. } => "alignment",
            Finding::Key(_) => "key",
            Finding::NestedArray { .. } => "nested_array",
            Finding::NotUtf8 { .. } => "not_utf8",
            Finding::LongName { .. } => "long_name",
            Finding::ManyDims { .. } => "many_dims",
            Finding::NoName { .. } => "no_name",
            Finding::NoElements { .. } => "no_elements",
            Finding::ActivationType { .. } => "activation_type",
            Finding::Gap { .. } => "gap",
            Finding::Padding { .. } => "padding",
            Finding::CutPadding { .. } => "cut_padding",
            Finding::Trailing { .. } => "trailing_bytes",
        }
    }
}

/// Checks a file and returns findings in byte order. Only reads padding of the data.
pub fn check(file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    if file.version() < 2 {
        findings.push(Finding::OldVersion { version: file.version() });
    }
    if file.endian() == Endian::Big {
        findings.push(Finding::BigEndian);
    }
    if !file.alignment().is_multiple_of(8) {
        findings.push(Finding::Alignment { alignment: file.alignment() });
    }
    for (key, value) in file.metadata() {
        match check_key(key) {
            // The reference's own files contain names that are not lower_snake_case.
            Err(problem) if problem.is_fatal() => findings.push(Finding::Key(problem)),
            _ => {}
        }
        match value {
            Value::Array(Array::Array(_)) => findings.push(Finding::NestedArray { key: key.clone() }),
            Value::String(text) if std::str::from_utf8(text).is_err() => {
                findings.push(Finding::NotUtf8 { key: key.clone() });
            }
            _ => {}
        }
    }
    check_tensors(file, &mut findings);
    findings
}

fn check_tensors(file: &File, findings: &mut Vec<Finding>) {
    let alignment = u64::from(file.alignment());
    let mut end = 0u64;
    for (index, info) in file.tensors().iter().enumerate() {
        let tensor = || info.name.clone();
        match info.name.len() {
            0 => findings.push(Finding::NoName { index }),
            len if len > MAX_REFERENCE_TENSOR_NAME_BYTES => {
                findings.push(Finding::LongName { tensor: tensor(), len });
            }
            _ => {}
        }
        if info.shape.n_dims() > GGML_MAX_DIMS {
            findings.push(Finding::ManyDims { tensor: tensor(), n_dims: info.shape.n_dims() });
        }
        if info.shape.n_elems() == 0 {
            findings.push(Finding::NoElements { tensor: tensor() });
        }
        if matches!(info.dtype, DType::Q8_1 | DType::Q8_K) {
            findings.push(Finding::ActivationType { tensor: tensor(), dtype: info.dtype });
        }
        if info.offset != end {
            findings.push(Finding::Gap { tensor: tensor(), expected: end, found: info.offset });
        }
        // The header was checked: offsets and sizes end below 2^63, so rounding up stays in range.
        end = (info.offset + info.n_bytes).next_multiple_of(alignment);
    }
    check_padding(file, findings);
}

/// Checks the bytes between the tensors and after the last one.
fn check_padding(file: &File, findings: &mut Vec<Finding>) {
    let (bytes, start) = (file.bytes(), file.data_offset());
    let mut in_order: Vec<(u64, u64)> =
        file.tensors().iter().map(|info| (start + info.offset, start + info.offset + info.n_bytes)).collect();
    in_order.sort_unstable();
    // After the header and after each tensor: less than the alignment, or else a gap that is reported anyway.
    let ends = std::iter::once(file.header_end()).chain(in_order.iter().map(|(_, end)| *end));
    let starts = in_order.iter().map(|(start, _)| *start);
    let last = in_order.iter().map(|(_, end)| *end).max().unwrap_or(start);
    let padded = last.next_multiple_of(u64::from(file.alignment()));
    let len = bytes.len() as u64;
    for (from, to) in ends.zip(starts.chain([padded.min(len)])) {
        let to = to.min(len).min(from.saturating_add(u64::from(file.alignment())));
        let padding = bytes.get(from as usize..to as usize).unwrap_or_default();
        if let Some(at) = padding.iter().position(|byte| *byte != 0) {
            findings.push(Finding::Padding { offset: from + at as u64, byte: padding[at] });
        }
    }
    // A file without tensors may end anywhere after the metadata.
    if len < padded && !file.tensors().is_empty() {
        findings.push(Finding::CutPadding { missing: padded - len, padding: padded - last });
    }
    if len > padded {
        findings.push(Finding::Trailing { n_bytes: len - padded });
    }
}

/// True if a file is one of several shards.
pub fn is_shard(file: &File) -> bool {
    file.get(SPLIT_COUNT_KEY).and_then(Value::as_u64).is_some_and(|count| count > 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Metadata, Plan};
    use gguf_types::Shape;

    /// A valid file with two tensors of 3 and 5 floats.
    fn file() -> Vec<u8> {
        let metadata = Metadata::from([("general.architecture".to_owned(), "x".into())]);
        let tensors =
            [("a", 3), ("b", 5)].map(|(name, n)| (name.to_owned(), Shape::new(&[n]).unwrap(), DType::F32));
        let plan = Plan::new(&metadata, tensors.to_vec(), Endian::Little, 32).unwrap();
        plan.to_bytes(&[vec![1; 12], vec![2; 20]]).unwrap()
    }

    fn codes(bytes: Vec<u8>) -> Vec<&'static str> {
        check(&File::parse(bytes).unwrap()).iter().map(Finding::code).collect()
    }

    #[test]
    fn valid_file_has_no_findings() {
        assert_eq!(codes(file()), [""; 0]);
    }

    #[test]
    fn padding_must_be_zero_and_complete() {
        let good = file();
        let data = File::parse(good.clone()).unwrap().data_offset() as usize;
        for at in [data - 1, data + 12, data + 31, data + 32 + 20, good.len() - 1] {
            let mut bytes = good.clone();
            bytes[at] = 7;
            let found = check(&File::parse(bytes).unwrap());
            let padding = matches!(found[..], [Finding::Padding { byte: 7, offset }] if offset == at as u64);
            // The byte before the data is only padding if the header does not end there.
            assert!(padding || (at == data - 1 && found.is_empty()), "{at}: {found:?}");
        }
        assert_eq!(codes(good[..good.len() - 1].to_vec()), ["cut_padding"]);
        assert_eq!(codes([&good[..], &[0]].concat()), ["trailing_bytes"]);
    }

    #[test]
    fn limits_of_the_reference_are_findings() {
        let tensor = |name: &str, dims: &[u64]| (name.to_owned(), Shape::new(dims).unwrap(), DType::F32);
        let tensors = vec![tensor("video", &[1; 5]), tensor("image", &[1; 4]), tensor(&"n".repeat(64), &[1])];
        let plan = Plan::new(&Metadata::new(), tensors, Endian::Little, 32).unwrap();
        assert_eq!(codes(plan.to_bytes(&[[0; 4]; 3]).unwrap()), ["many_dims", "long_name"]);
    }

    #[test]
    fn types_of_forks_are_named() {
        let mut bytes = file();
        // The type of the last tensor precedes its offset, which ends the header.
        let at = File::parse(bytes.clone()).unwrap().header_end() as usize - 12;
        bytes[at..at + 4].copy_from_slice(&139u32.to_le_bytes());
        let error = File::parse(bytes).unwrap_err();
        let hint = gguf_types::Problem::hint(&error).unwrap().to_string();
        assert_eq!(hint, "type 139 is iq4_k of ik_llama.cpp, the only program that reads it");
    }
}
