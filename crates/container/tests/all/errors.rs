//! Every error that no other file of this folder produces, with its message.

use std::path::Path;

use gguf_container::{
    Array, Endian, Error, File, Header, MAX_ARRAY_DEPTH, Mapped, Metadata, Plan, PlanWarning, Value,
};
use gguf_types::{DType, Problem as _, Shape};

use crate::raw::Raw;

/// Error message for reading `raw`.
fn message(raw: &Raw) -> String {
    File::parse(raw.bytes.clone()).unwrap_err().to_string()
}

/// A header with one key whose value starts with `type_id`, followed by `rest`.
fn with_value(type_id: u32, rest: impl FnOnce(&mut Raw)) -> Raw {
    let mut raw = Raw::v3(0, 1);
    raw.key("k", type_id);
    rest(&mut raw);
    raw
}

/// A header with an array of `n` items, of which `items` are there.
fn with_array(type_id: u32, n: u64, items: &[u8]) -> Raw {
    with_value(9, |raw| {
        raw.u32(type_id);
        raw.u64(n);
        raw.bytes.extend(items);
    })
}

#[test]
fn invalid_headers_are_refused() {
    let parse = |bytes: &[u8]| Header::parse(bytes).unwrap_err().to_string();
    assert_eq!(
        parse(b""),
        "unexpected end of file in the magic bytes: expected 4 bytes at offset 0, found 0"
    );
    assert_eq!(
        parse(b"GGUF\x03"),
        "unexpected end of file in the version: expected 4 bytes at offset 4, found 1"
    );
    assert_eq!(parse(b"PK\x03\x04..."), r"not a GGUF file: expected `GGUF` at the start, found `PK\x03\x04`");
    for legacy in [b"lmgg", b"fmgg", b"tjgg", b"algg"] {
        let error = Header::parse(legacy).unwrap_err();
        assert_eq!(error.hint().unwrap().to_string(), "the file has a format older than GGUF");
    }
    let zip = Header::parse(b"PK\x03\x04").unwrap_err();
    assert_eq!(zip.hint().unwrap().to_string(), "the file is a zip archive; unpack it first");
    let known = "(expected 1 to 3, in either byte order)";
    for version in [0u32, 4, 0x0004_0000, 0x0400_0000, 0x0300_0001, u32::MAX] {
        let mut bytes = b"GGUF".to_vec();
        bytes.extend(version.to_le_bytes());
        bytes.extend([0; 16]);
        assert_eq!(parse(&bytes), format!("unknown GGUF version {version} {known}"));
    }
}

#[test]
fn invalid_values_are_refused() {
    let cases: [(&str, Raw); 12] = [
        (
            "metadata key `k`: unknown value type 4294967295 (expected 0 to 12)",
            with_value(u32::MAX, |raw| raw.u64(0)),
        ),
        ("metadata key `k`: unknown value type 13 (expected 0 to 12)", with_array(13, 0, &[])),
        ("metadata key `k`: bool at offset 37: expected 0 or 1, found 2", with_value(7, |raw| raw.u8(2))),
        (
            "metadata key `k`: bool at offset 51: expected 0 or 1, found 255",
            with_array(7, 4, &[0, 1, 255, 2]),
        ),
        (
            "unexpected end of file in a metadata value: expected 8 bytes at offset 37, found 4",
            with_value(12, |raw| raw.u32(0)),
        ),
        (
            "unexpected end of file in a metadata string: expected 18446744073709551615 bytes at offset 45, found 1",
            with_value(8, |raw| {
                raw.u64(u64::MAX);
                raw.u8(0);
            }),
        ),
        (
            "array length of 4611686018427387905 at offset 49 does not fit in the remaining 4 bytes",
            with_array(4, (1 << 62) + 1, &[0; 4]),
        ),
        ("array length of 2 at offset 49 does not fit in the remaining 15 bytes", with_array(8, 2, &[0; 15])),
        ("array length of 2 at offset 49 does not fit in the remaining 23 bytes", with_array(9, 2, &[0; 23])),
        ("number of bools of 2 at offset 49 does not fit in the remaining 1 bytes", with_array(7, 2, &[0])),
        (
            "metadata key `k`: arrays nested deeper than 8",
            with_value(9, |raw| {
                for _ in 0..MAX_ARRAY_DEPTH {
                    raw.u32(9);
                    raw.u64(1);
                }
                raw.u32(0);
                raw.u64(0);
            }),
        ),
        (r"key 0 is not valid UTF-8: `\xff`", {
            let mut raw = Raw::v3(0, 1);
            raw.string(&[0xff]);
            raw.u32(0);
            raw.u8(0);
            raw
        }),
    ];
    for (expected, raw) in cases {
        assert_eq!(message(&raw), expected);
    }
    let mut long = Raw::v3(0, 1);
    long.string(&[b'k'; 65536]);
    long.bytes.extend([0; 5]);
    assert_eq!(message(&long), "metadata key 0: expected at most 65535 bytes, found 65536");
}

/// Maximum depth of arrays when reading and writing.
#[test]
fn nesting_is_limited() {
    let nested = |levels| {
        (1..levels).fold(Array::U8(vec![5]), |inner, _| Array::Array(vec![inner, Array::Bool(vec![])]))
    };
    let metadata = Metadata::from([("k".to_owned(), Value::Array(nested(MAX_ARRAY_DEPTH)))]);
    let plan = Plan::new(&metadata, Vec::new(), Endian::Big, 32).unwrap();
    assert_eq!(Header::parse(plan.header_bytes()).unwrap().metadata(), &metadata);
    let deeper = Metadata::from([("k".to_owned(), Value::Array(nested(MAX_ARRAY_DEPTH + 1)))]);
    let error = Plan::new(&deeper, Vec::new(), Endian::Big, 32).unwrap_err();
    assert!(matches!(error, Error::TooDeep { max: 8, .. }));
}

#[test]
fn invalid_tensors_are_refused() {
    let one = |dims: &[u64], type_id, offset, len: usize| {
        let mut raw = Raw::v3(1, 0);
        raw.tensor("t", dims, type_id, offset);
        raw.pad(32);
        let len = raw.bytes.len() + len;
        raw.bytes.resize(len, 0);
        raw
    };
    for (expected, raw) in [
        ("tensor `t`: expected at most 5 dimensions, found 6", one(&[1; 6], 0, 0, 32)),
        (
            "tensor `t`: ggml type id 4 (`q4_2`) was removed from the format in favor of `q4_0`",
            one(&[32], 4, 0, 32),
        ),
        ("tensor `t`: unknown ggml type id 99 (expected 0 to 42)", one(&[32], 99, 0, 32)),
        ("tensor `t`: row length 33 is not a multiple of the q4_0 block size 32", one(&[33], 2, 0, 64)),
        (
            "tensor `t`: size of shape [0, 4611686018427387904, 4] does not fit in 63 bits",
            one(&[0, 1 << 62, 4], 0, 0, 0),
        ),
        ("tensor `t`: data offset 8 is not a multiple of 32", one(&[1], 0, 8, 64)),
        ("tensor `t`: 4 bytes at offset 96 do not fit in a file of 99 bytes", one(&[1], 0, 32, 35)),
        (
            "tensor `t`: 4 bytes at data offset 9223372036854775776 exceed 63 bits",
            one(&[1], 0, i64::MAX as u64 / 32 * 32, 35),
        ),
    ] {
        assert_eq!(message(&raw), expected);
    }

    let mut raw = Raw::v3(2, 0);
    raw.tensor("b", &[9], 0, 32);
    raw.tensor("a", &[9], 0, 0);
    raw.pad(32);
    raw.bytes.resize(raw.bytes.len() + 96, 0);
    assert_eq!(message(&raw), "tensor `b` starts at data offset 32, inside `a`, which ends at 36");

    let mut raw = Raw::v3(1, 0);
    raw.string(&[b'n', 0xc0]);
    raw.bytes.resize(raw.bytes.len() + 32, 0);
    assert_eq!(message(&raw), r"tensor name 0 is not valid UTF-8: `n\xc0`");

    for (len, is_good) in [(63, true), (127, true), (128, false)] {
        let mut raw = Raw::v3(1, 0);
        raw.tensor(&"n".repeat(len), &[0], 0, 0);
        let result = Header::parse(&raw.bytes);
        assert_eq!(result.is_ok(), is_good);
        assert!(is_good || matches!(result, Err(Error::TensorNameTooLong { len: 128, max: 127, .. })));
    }
}

#[test]
fn tensor_of_another_file_is_refused() {
    let plan = |len| {
        let tensors = vec![("t".to_owned(), Shape::new(&[len]).unwrap(), DType::I8)];
        let plan = Plan::new(&Metadata::new(), tensors, Endian::Little, 32).unwrap();
        File::parse(plan.to_bytes(&[vec![1; len as usize]]).unwrap()).unwrap()
    };
    let (small, large) = (plan(1), plan(1000));
    assert!(matches!(small.data(&large.tensors()[0]), Err(Error::OutOfFile { .. })));
    assert_eq!(large.data(&small.tensors()[0]).unwrap(), [1]);
}

#[test]
fn unopenable_files_are_named() {
    let folder = tempfile::tempdir().unwrap();
    for path in [folder.path(), &folder.path().join("none")] {
        let error = File::open(path).unwrap_err();
        assert!(matches!(&error, Error::Io { action: "open", path: p, .. } if p == path), "{error}");
    }
    let path = folder.path().join("x.gguf");
    std::fs::write(&path, Plan::new(&Metadata::new(), Vec::new(), Endian::Big, 32).unwrap().header_bytes())
        .unwrap();
    let file = File::open(&path).unwrap();
    assert_eq!(file.bytes().len(), Mapped::open(Path::new(&path)).unwrap().len());
}

fn aligned_to(alignment: u32) -> Metadata {
    Metadata::from([("general.alignment".to_owned(), Value::U32(alignment))])
}

#[test]
fn invalid_plans_are_refused() {
    let plan = |keys: &[(&str, Value)], names: &[&str], alignment| {
        let metadata: Metadata = keys.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect();
        let row = Shape::new(&[32]).unwrap();
        let tensors = names.iter().map(|name| ((*name).to_owned(), row, DType::Q4_0)).collect();
        Plan::new(&metadata, tensors, Endian::Little, alignment).map_err(|error| error.to_string())
    };
    let key = |key| [(key, Value::U8(1))];
    let aligned = |value| [("general.alignment", value)];
    let long = "k".repeat(65536);
    let name = "n".repeat(128);
    let expected = "alignment: expected a power of two from 8 to 16777216, found";
    for (expected, result) in [
        (format!("{expected} 0"), plan(&[], &[], 0)),
        (format!("{expected} 4"), plan(&[], &[], 4)),
        (format!("{expected} 24"), plan(&[], &[], 24)),
        (format!("{expected} 33554432"), plan(&aligned(Value::U32(1 << 25)), &[], 1 << 25)),
        ("planned alignment 64 differs from 32 in `general.alignment`".to_owned(), plan(&[], &[], 64)),
        (
            "planned alignment 32 differs from 64 in `general.alignment`".to_owned(),
            plan(&aligned(Value::U32(64)), &[], 32),
        ),
        (
            "metadata key `general.alignment`: expected type u32, found u64".to_owned(),
            plan(&aligned(Value::U64(32)), &[], 32),
        ),
        ("metadata key 0: the key is empty".to_owned(), plan(&key(""), &[], 32)),
        ("metadata key 0: expected at most 65535 bytes, found 65536".to_owned(), plan(&key(&long), &[], 32)),
        ("metadata key 0: key `ключ` is not ASCII".to_owned(), plan(&key("ключ"), &[], 32)),
        ("duplicate tensor `a`".to_owned(), plan(&[], &["a", "b", "a"], 32)),
        ("tensor 1: missing name".to_owned(), plan(&[], &["a", ""], 32)),
        ("name of tensor 0: expected at most 127 bytes, found 128".to_owned(), plan(&[], &[&name], 32)),
    ] {
        assert_eq!(result.err(), Some(expected));
    }

    let row = |dims: &[u64]| vec![("t".to_owned(), Shape::new(dims).unwrap(), DType::Q4_0)];
    let error = Plan::new(&Metadata::new(), row(&[33]), Endian::Little, 32).unwrap_err().to_string();
    assert_eq!(error, "tensor `t`: row length 33 is not a multiple of the q4_0 block size 32");
    let huge = |name: &str| (name.to_owned(), Shape::new(&[i64::MAX as u64 / 2]).unwrap(), DType::I8);
    let tensors = vec![huge("a"), huge("b"), huge("c")];
    assert!(matches!(Plan::new(&Metadata::new(), tensors, Endian::Little, 32), Err(Error::FileTooLong)));

    let plan = plan(&key("command-r.block_count"), &["short", &name[..64], &name[..63]], 32).unwrap();
    let [PlanWarning::Key(problem), PlanWarning::TensorName { name }] = plan.warnings() else {
        panic!("{:?}", plan.warnings())
    };
    assert_eq!(
        problem.to_string(),
        "part `command-r` of key `command-r.block_count` is not lower_snake_case"
    );
    assert_eq!(name.len(), 64);
    let wide = Plan::new(&aligned_to(1 << 24), Vec::new(), Endian::Little, 1 << 24).unwrap();
    assert_eq!(wide.file_len(), 1 << 24);
    for data in [vec![vec![0; 18]; 2], vec![vec![0; 18]; 4], vec![vec![0; 17]; 3]] {
        assert!(matches!(plan.to_bytes(&data), Err(Error::WriteOutOfRange { .. })));
    }
    assert_eq!(plan.to_bytes(&[[0; 18]; 3]).unwrap().len() as u64, plan.file_len());
}
