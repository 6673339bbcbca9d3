//! Counterparts of the 34 handcrafted files of the reference, with its verdicts.
//!
//! Source of names, defects and verdicts: `tests/test-gguf.cpp` (llama-cpp-python 0.3.36),
//! `handcrafted_file_type` and `expect_context_not_null`. Its keys and tensors are random; ours have every
//! value type and every dtype once. Like there, the header, key-value and tensor cases concern the header,
//! the data cases the file.
//!
//! If our verdict is deliberately wider (`Wider`), the case states the reason. It is narrower in one respect:
//! the random bools of the reference's valid files are any byte, ours are 0 or 1, as specified.

use gguf_container::{ALIGNMENT_KEY, Array, Error, File, Header, KeyProblem, Value};
use gguf_types::{DType, DTypeError, ShapeError};

use crate::raw::Raw;

#[derive(Clone, Copy, PartialEq, PartialOrd)]
enum Section {
    Header,
    Keys,
    Tensors,
    Data,
}

/// A file to be written, valid unless something is set.
struct Plan {
    magic: [u8; 4],
    version: u32,
    n_tensors: Option<u64>,
    n_keys: Option<u64>,
    key_len: Option<u64>,
    key: fn(usize) -> String,
    value_type: Option<u32>,
    /// Type id and bits of `general.alignment`.
    alignment: Option<(u32, u32)>,
    name: fn(usize) -> String,
    n_dims: Option<u32>,
    dims: fn(&[u64]) -> Vec<u64>,
    type_id: fn(DType) -> u32,
    /// Only these tensors: dtype and dimensions.
    tensors: Option<Vec<(DType, Vec<u64>)>>,
    offset: fn(u64) -> u64,
    /// Alignment of offsets, if it differs from the file's alignment.
    offset_alignment: Option<u64>,
    data_len: fn(u64) -> u64,
}

impl Default for Plan {
    fn default() -> Plan {
        Plan {
            magic: *b"GGUF",
            version: 3,
            n_tensors: None,
            n_keys: None,
            key_len: None,
            key: |i| format!("my_key_{i}"),
            value_type: None,
            alignment: None,
            name: |i| format!("my_tensor_{i}"),
            n_dims: None,
            dims: <[u64]>::to_vec,
            type_id: DType::id,
            tensors: None,
            offset: |offset| offset,
            offset_alignment: None,
            data_len: |len| len,
        }
    }
}

fn values() -> Vec<Value> {
    let data: Vec<u8> = (0..64u8).map(|i| i.wrapping_mul(37)).collect();
    let scalars = [
        Value::U8(200),
        Value::I8(-3),
        Value::U16(40000),
        Value::I16(-4),
        Value::U32(3 << 30),
        Value::I32(-5),
        Value::F32(-0.25),
        Value::Bool(true),
        Value::String(data[..17].to_vec()),
        Value::U64(u64::MAX),
        Value::I64(i64::MIN),
        Value::F64(1e300),
    ];
    let arrays = [
        Array::U8(data.clone()),
        Array::I8(vec![-1, 0, 1]),
        Array::U16(vec![]),
        Array::I16(vec![-300; 31]),
        Array::U32(vec![7; 15]),
        Array::I32(vec![-7; 3]),
        Array::F32(vec![0.1; 9]),
        Array::Bool(vec![false, true]),
        Array::String(vec![&[], &data[..4], &data[5..6]].into()),
        Array::U64(vec![1 << 63]),
        Array::I64(vec![-1; 7]),
        Array::F64(vec![0.1; 5]),
    ];
    scalars.into_iter().chain(arrays.map(Value::Array)).collect()
}

/// Every dtype once, with 1 to 4 dimensions. The data of the last one ends at a multiple of every alignment,
/// so that truncation by one byte removes data instead of padding.
fn tensors() -> Vec<(DType, Vec<u64>)> {
    let mut tensors: Vec<_> = DType::ALL
        .iter()
        .enumerate()
        .map(|(i, dtype)| {
            let outer = [1 + i as u64 % 7, 3, 2];
            let mut dims = vec![dtype.block_elems() * (1 + i as u64 % 10)];
            dims.extend(&outer[..i % 4]);
            (*dtype, dims)
        })
        .collect();
    tensors.push((DType::F32, vec![64]));
    tensors
}

fn n_bytes(dtype: DType, dims: &[u64]) -> u64 {
    let n_elems = dims.iter().fold(1u64, |product, dim| product.wrapping_mul(*dim));
    (n_elems / dtype.block_elems()).wrapping_mul(dtype.block_bytes())
}

impl Plan {
    fn write(&self, section: Section) -> Vec<u8> {
        let values = if section >= Section::Keys { values() } else { Vec::new() };
        let tensors = match &self.tensors {
            Some(tensors) => tensors.clone(),
            None if section >= Section::Tensors => tensors(),
            None => Vec::new(),
        };
        let mut raw = Raw::new(self.version, gguf_container::Endian::Little);
        raw.bytes[..4].copy_from_slice(&self.magic);
        raw.u64(self.n_tensors.unwrap_or(tensors.len() as u64));
        let n_keys = values.len() + usize::from(self.alignment.is_some());
        raw.u64(self.n_keys.unwrap_or(n_keys as u64));

        for (i, value) in values.iter().enumerate() {
            let start = raw.bytes.len();
            let key = (self.key)(i);
            raw.key_value(&key, value);
            if let Some(len) = self.key_len {
                raw.bytes[start..start + 8].copy_from_slice(&len.to_le_bytes());
            }
            if let Some(type_id) = self.value_type {
                let at = start + 8 + key.len();
                raw.bytes[at..at + 4].copy_from_slice(&type_id.to_le_bytes());
            }
        }
        let mut alignment = 32;
        if let Some((type_id, bits)) = self.alignment {
            raw.key(ALIGNMENT_KEY, type_id);
            raw.u32(bits);
            alignment = u64::from(bits);
        }

        let mut offset = 0u64;
        for (i, (dtype, dims)) in tensors.iter().enumerate() {
            let dims = (self.dims)(dims);
            raw.string((self.name)(i).as_bytes());
            raw.u32(self.n_dims.unwrap_or(dims.len() as u32));
            dims.iter().for_each(|dim| raw.u64(*dim));
            raw.u32((self.type_id)(*dtype));
            raw.u64((self.offset)(offset));
            let step = n_bytes(*dtype, &dims).div_ceil(self.offset_alignment.unwrap_or(alignment));
            offset = offset.wrapping_add(step.wrapping_mul(self.offset_alignment.unwrap_or(alignment)));
        }
        raw.pad(alignment as usize);
        if section == Section::Data {
            raw.bytes.extend((0..(self.data_len)(offset)).map(|i| i as u8));
        }
        raw.bytes
    }
}

enum Verdict {
    Good,
    /// Refused by both, for this reason.
    Bad(fn(&Error) -> bool),
    /// Refused by the reference, accepted by us.
    Wider,
}

use Section::{Data, Header as Head, Keys, Tensors};
use Verdict::{Bad, Good, Wider};

macro_rules! bad {
    ($pattern:pat) => {
        Bad(|error| matches!(error, $pattern))
    };
}

type Case = (&'static str, Section, Plan, Verdict);

fn all_cases() -> Vec<Case> {
    [header_and_key_cases(), tensor_cases(), data_cases()].into_iter().flatten().collect()
}

fn header_and_key_cases() -> Vec<Case> {
    let good = Plan::default;
    vec![
        ("HEADER_BAD_MAGIC", Head, Plan { magic: *b"FUGG", ..good() }, bad!(Error::Magic { .. })),
        ("HEADER_BAD_VERSION_0", Head, Plan { version: 0, ..good() }, bad!(Error::Version { found: 0 })),
        // The reference has dropped version 1; we read it.
        ("HEADER_BAD_VERSION_1", Head, Plan { version: 1, ..good() }, Wider),
        ("HEADER_BAD_VERSION_FUTURE", Head, Plan { version: 4, ..good() }, bad!(Error::Version { found: 4 })),
        (
            "HEADER_BAD_N_TENSORS",
            Head,
            Plan { n_tensors: Some(u64::MAX), ..good() },
            bad!(Error::CountTooLarge { item: "number of tensors", .. }),
        ),
        (
            "HEADER_BAD_N_KV",
            Head,
            Plan { n_keys: Some(u64::MAX), ..good() },
            bad!(Error::CountTooLarge { item: "number of metadata keys", .. }),
        ),
        ("HEADER_EMPTY", Head, good(), Good),
        (
            "KV_BAD_KEY_SIZE",
            Keys,
            Plan { key_len: Some(u64::MAX), ..good() },
            bad!(Error::Truncated { item: "a metadata key", .. }),
        ),
        (
            "KV_EMPTY_KEY",
            Keys,
            Plan { key: |_| String::new(), ..good() },
            bad!(Error::Key { index: 0, problem: KeyProblem::Empty }),
        ),
        ("KV_BAD_TYPE", Keys, Plan { value_type: Some(13), ..good() }, bad!(Error::ValueType { id: 13, .. })),
        (
            "KV_DUPLICATE_KEY",
            Keys,
            Plan { key: |i| format!("my_key_{}", i / 2), ..good() },
            bad!(Error::DuplicateKey { .. }),
        ),
        (
            "KV_BAD_ALIGN",
            Keys,
            Plan { alignment: Some((4, 13)), ..good() },
            bad!(Error::Alignment { found: 13, .. }),
        ),
        (
            "KV_WRONG_TYPE_ALIGN",
            Keys,
            Plan { alignment: Some((5, 13)), ..good() },
            bad!(Error::AlignmentType { found: "i32" }),
        ),
        ("KV_SUCCESS", Keys, good(), Good),
    ]
}

fn tensor_cases() -> Vec<Case> {
    let good = Plan::default;
    vec![
        (
            "TENSORS_BAD_NAME_SIZE",
            Tensors,
            Plan {
                name: |i| {
                    format!(
                        "my_tensor_{i}_with_a_very_long_name_beyond_all_that_is_allowed_for_ggml_tensors_and_for_those_of_image_models_whose_names_may_be_twice_as_long"
                    )
                },
                ..good()
            },
            bad!(Error::TensorNameTooLong { .. }),
        ),
        (
            "TENSORS_BAD_N_DIMS",
            Tensors,
            Plan { n_dims: Some(6), ..good() },
            bad!(Error::Shape { source: ShapeError::TooManyDims { found: 6 }, .. }),
        ),
        (
            "TENSORS_BAD_SHAPE",
            Tensors,
            Plan { dims: |dims| vec![u64::MAX; dims.len()], ..good() },
            bad!(Error::Shape { source: ShapeError::Overflow { .. }, .. }),
        ),
        ("TENSORS_ZERO_DIM", Tensors, Plan { dims: |dims| vec![dims[0], 0], ..good() }, Good),
        (
            "TENSORS_NE_TOO_BIG",
            Tensors,
            Plan { dims: |_| vec![4 * 0x7fff_ffff; 2], ..good() },
            bad!(Error::Shape { source: ShapeError::Overflow { .. }, .. }),
        ),
        (
            "TENSORS_NBYTES_TOO_BIG",
            Tensors,
            // 1.01 times the root of the limit, so that only the bytes overflow.
            Plan { dims: |_| vec![1_533_686_000; 2], type_id: |_| DType::I64.id(), ..good() },
            bad!(Error::Shape { source: ShapeError::Overflow { .. }, .. }),
        ),
        (
            "TENSORS_NBYTES_PAD_WRAP",
            Tensors,
            Plan { tensors: Some(vec![(DType::F32, vec![4, 1_073_741_823, 1_073_741_825])]), ..good() },
            bad!(Error::Shape { source: ShapeError::Overflow { .. }, .. }),
        ),
        (
            "TENSORS_BAD_TYPE",
            Tensors,
            Plan { type_id: |_| 43, ..good() },
            bad!(Error::DType { source: DTypeError::UnknownId { id: 43, .. }, .. }),
        ),
        (
            "TENSORS_BAD_OFFSET",
            Tensors,
            Plan { offset: |_| u64::MAX, ..good() },
            bad!(Error::Misaligned { offset: u64::MAX, .. }),
        ),
        (
            "TENSORS_DUPLICATE_NAME",
            Tensors,
            Plan { name: |_| "my_tensor".to_owned(), ..good() },
            bad!(Error::DuplicateTensor { .. }),
        ),
        (
            "TENSORS_BAD_ALIGN",
            Tensors,
            Plan { alignment: Some((4, 13)), ..good() },
            bad!(Error::Alignment { found: 13, .. }),
        ),
        (
            "TENSORS_INCONSISTENT_ALIGN",
            Tensors,
            Plan { offset_alignment: Some(1), ..good() },
            bad!(Error::Misaligned { alignment: 32, .. }),
        ),
        ("TENSORS_SUCCESS", Tensors, good(), Good),
        ("TENSORS_CUSTOM_ALIGN", Tensors, Plan { alignment: Some((4, 1)), ..good() }, Good),
    ]
}

fn data_cases() -> Vec<Case> {
    let good = Plan::default;
    let huge = || vec![(DType::I8, vec![0x7fff_ffff_ffff_ffc0]); 2];
    vec![
        (
            "DATA_NOT_ENOUGH_DATA",
            Data,
            Plan { data_len: |len| len - 1, ..good() },
            bad!(Error::OutOfFile { .. }),
        ),
        (
            "DATA_BAD_ALIGN",
            Data,
            Plan { alignment: Some((4, 13)), ..good() },
            bad!(Error::Alignment { found: 13, .. }),
        ),
        (
            "DATA_INCONSISTENT_ALIGN",
            Data,
            Plan { offset_alignment: Some(1), ..good() },
            bad!(Error::Misaligned { alignment: 32, .. }),
        ),
        (
            "DATA_MEM_SIZE_OVERFLOW",
            Data,
            Plan { tensors: Some(huge()), data_len: |_| 32, ..good() },
            bad!(Error::OffsetOverflow { .. }),
        ),
        ("DATA_SUCCESS", Data, good(), Good),
        ("DATA_CUSTOM_ALIGN", Data, Plan { alignment: Some((4, 1)), ..good() }, Good),
    ]
}

fn read(section: Section, bytes: &[u8]) -> Result<Header, Error> {
    if section == Data {
        File::parse(bytes.to_vec()).map(|file| file.header().clone())
    } else {
        Header::parse(bytes)
    }
}

#[test]
fn verdicts_match_reference() {
    let cases = all_cases();
    assert_eq!(cases.len(), 34);
    for (name, section, plan, verdict) in &cases {
        let bytes = plan.write(*section);
        let result = read(*section, &bytes);
        match (verdict, &result) {
            (Good | Wider, Ok(_)) => {}
            (Bad(is_expected), Err(error)) => assert!(is_expected(error), "{name}: {error}"),
            (Good | Wider, Err(error)) => panic!("{name}: {error}"),
            (Bad(_), Ok(_)) => panic!("{name}: read as good"),
        }
        // Like in the reference, bytes after the end do not make a file invalid.
        if result.is_ok() {
            for extra in [1, 1000] {
                let mut longer = bytes.clone();
                longer.resize(bytes.len() + extra, 0);
                assert!(read(*section, &longer).is_ok(), "{name} and {extra} bytes");
            }
        }
    }
}

/// The reference also compares the contents of the valid files.
#[test]
fn valid_files_have_expected_content() {
    for (name, section, plan, verdict) in all_cases() {
        let (Good, true) = (verdict, section > Head) else { continue };
        let bytes = plan.write(section);
        let header = read(section, &bytes).unwrap();
        let expected = values();
        assert_eq!(header.metadata().len(), expected.len() + usize::from(plan.alignment.is_some()), "{name}");
        for (i, value) in expected.iter().enumerate() {
            assert_eq!(header.get(&format!("my_key_{i}")), Some(value), "{name}");
        }
        assert_eq!(header.alignment(), plan.alignment.map_or(32, |(_, bits)| bits), "{name}");
        if section == Keys {
            assert!(header.tensors().is_empty());
            continue;
        }
        let mut offset = 0u64;
        let expected = tensors();
        assert_eq!(header.tensors().len(), expected.len(), "{name}");
        for (tensor, (dtype, dims)) in header.tensors().iter().zip(expected) {
            let dims = (plan.dims)(&dims);
            assert_eq!((tensor.dtype, tensor.shape.dims()), (dtype, &dims[..]), "{name}");
            assert_eq!(tensor.offset, offset, "{name}");
            offset += n_bytes(dtype, &dims).next_multiple_of(header.alignment().into());
            if section == Data {
                let file = File::parse(bytes.clone()).unwrap();
                let data = file.data(tensor).unwrap();
                assert_eq!(data.len() as u64, n_bytes(dtype, &dims));
                let is_expected = |(i, byte): (usize, &u8)| *byte == (tensor.offset as usize + i) as u8;
                assert!(data.iter().enumerate().all(is_expected), "{name}: {}", tensor.name);
            }
        }
    }
}
