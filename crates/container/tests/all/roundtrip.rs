//! Written files are read again, in every version and byte order.

use gguf_container::{Array, DEFAULT_ALIGNMENT, Endian, Error, File, Header, Metadata, Plan, Value};
use gguf_types::{DType, Shape};

use crate::{
    random::{Content, Random},
    raw::Raw,
};

const BOTH: [Endian; 2] = [Endian::Little, Endian::Big];

fn every_type() -> Metadata {
    let arrays = [
        Array::U8(vec![0, 255]),
        Array::I8(vec![-128, 127]),
        Array::U16(vec![1, 65535]),
        Array::I16(vec![-32768, 2]),
        Array::U32(vec![0x0102_0304]),
        Array::I32(vec![-2]),
        Array::F32(vec![0.1, f32::NEG_INFINITY]),
        Array::Bool(vec![true, false, true]),
        Array::String(vec![b"".to_vec(), vec![0xff, 0], "日".as_bytes().to_vec()].into()),
        Array::Array(vec![
            Array::U8(vec![]),
            Array::String(vec!["x"].into()),
            Array::Array(vec![Array::F64(vec![1.5]), Array::Bool(vec![])]),
        ]),
        Array::U64(vec![u64::MAX]),
        Array::I64(vec![i64::MIN]),
        Array::F64(vec![-0.0, 5e-324]),
    ];
    let scalars = [
        Value::U8(200),
        Value::I8(-100),
        Value::U16(0x0102),
        Value::I16(-2),
        Value::U32(0x0102_0304),
        Value::I32(-3),
        Value::F32(0.1),
        Value::Bool(true),
        Value::Bool(false),
        Value::String(vec![0xf0, 0x9f]),
        Value::U64(0x0102_0304_0506_0708),
        Value::I64(-4),
        Value::F64(0.1),
    ];
    let values = scalars.into_iter().chain(arrays.into_iter().map(Value::Array));
    values.enumerate().map(|(i, value)| (format!("value.v{i}"), value)).collect()
}

#[test]
fn value_types_round_trip_in_both_byte_orders() {
    let metadata = every_type();
    for endian in BOTH {
        let plan = Plan::new(&metadata, Vec::new(), endian, DEFAULT_ALIGNMENT).unwrap();
        let file = File::parse(plan.header_bytes().to_vec()).unwrap();
        assert_eq!((file.version(), file.endian()), (3, endian));
        assert_eq!(file.metadata(), &metadata);
        assert_eq!(file.get("value.v4"), Some(&Value::U32(0x0102_0304)));
        assert_eq!(file.get("value"), None);
        assert_eq!(plan.file_len() as usize, plan.header_bytes().len());
        assert!(plan.header_bytes().starts_with(plan.unpadded_header_bytes()));
        assert_eq!(Header::parse(plan.unpadded_header_bytes()).unwrap().metadata(), &metadata);
    }
}

#[test]
fn nan_keeps_its_bits() {
    for endian in BOTH {
        let metadata = Metadata::from([("nan".to_owned(), Value::F32(f32::from_bits(0x7fa1_2345)))]);
        let plan = Plan::new(&metadata, Vec::new(), endian, 32).unwrap();
        match Header::parse(plan.header_bytes()).unwrap().get("nan") {
            Some(Value::F32(v)) => assert_eq!(v.to_bits(), 0x7fa1_2345),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn versions_and_byte_orders_agree() {
    let metadata = every_type();
    for version in 1..=3 {
        for endian in BOTH {
            let mut raw = Raw::new(version, endian);
            raw.count(2);
            raw.count(metadata.len() as u64);
            for (key, value) in &metadata {
                raw.key_value(key, value);
            }
            raw.tensor("a", &[3, 2], 0, 0);
            raw.tensor("b", &[], 24, 32);
            raw.pad(32);
            let data_offset = raw.bytes.len();
            raw.bytes.extend(0..33);
            let file = File::parse(raw.bytes).unwrap();
            assert_eq!((file.version(), file.endian()), (version, endian));
            assert_eq!(file.metadata(), &metadata);
            assert_eq!(file.data_offset() as usize, data_offset);
            let [a, b] = file.tensors() else { panic!("two tensors") };
            assert_eq!(file.data(a).unwrap(), (0..24).collect::<Vec<u8>>());
            assert_eq!(file.data(b).unwrap(), [32]);
            assert_eq!((a.dtype, a.shape.dims()), (DType::F32, &[3, 2][..]));
            assert_eq!(b.shape.n_dims(), 0);
            assert_eq!(file.tensor("b"), Some(b));
            assert_eq!(file.tensor("c"), None);
        }
    }
}

#[test]
fn random_files_round_trip() {
    let mut random = Random(gguf_testkit::Draw::new(20261121));
    for _ in 0..300 {
        let content = Content::new(&mut random);
        let Content { metadata, tensors, data, endian, alignment } = &content;
        let plan = Plan::new(metadata, tensors.clone(), *endian, *alignment).unwrap();
        let bytes = plan.to_bytes(data).unwrap();
        assert_eq!(bytes.len() as u64, plan.file_len());
        let file = File::parse(bytes).unwrap();
        assert_eq!((file.endian(), file.alignment()), (*endian, *alignment));
        assert_eq!(file.metadata(), metadata);
        assert_eq!(file.tensors().len(), tensors.len());
        assert_eq!(file.data_offset(), plan.header_bytes().len() as u64);
        for ((tensor, (name, shape, dtype)), data) in file.tensors().iter().zip(tensors).zip(data) {
            assert_eq!((&tensor.name, tensor.shape, tensor.dtype), (name, *shape, *dtype));
            assert_eq!(file.data(tensor).unwrap(), data);
            let planned = plan.tensor(name).unwrap();
            assert_eq!(planned.offset, file.data_offset() + tensor.offset);
            assert!(planned.offset.is_multiple_of(u64::from(*alignment)));
        }
    }
}

#[test]
fn unordered_tensors_with_gaps_are_read() {
    let mut raw = Raw::v3(3, 0);
    raw.tensor("late", &[8], 24, 128);
    raw.tensor("empty", &[8, 0], 24, 128);
    raw.tensor("early", &[8], 24, 32);
    raw.pad(32);
    raw.bytes.extend(0..136);
    let file = File::parse(raw.bytes).unwrap();
    assert_eq!(file.data(&file.tensors()[0]).unwrap()[0], 128);
    assert!(file.data(&file.tensors()[1]).unwrap().is_empty());
    assert_eq!(file.data(&file.tensors()[2]).unwrap()[0], 32);
}

/// Every truncation of a small file is an error up to the last byte of data, never a panic.
#[test]
fn truncation_at_every_byte_is_refused() {
    for endian in BOTH {
        let tensors = vec![
            ("first".to_owned(), Shape::new(&[32, 2]).unwrap(), DType::Q4_0),
            ("second".to_owned(), Shape::new(&[5]).unwrap(), DType::F16),
        ];
        let plan = Plan::new(&every_type(), tensors, endian, 32).unwrap();
        let bytes = plan.to_bytes(&[vec![1; 36], vec![2; 10]]).unwrap();
        let end = plan.tensors().last().map(|last| last.offset + last.n_bytes).unwrap() as usize;
        assert_eq!(bytes.len() - end, 22);
        for len in 0..=bytes.len() {
            let result = File::parse(bytes[..len].to_vec());
            // Padding after the last tensor is not required.
            assert_eq!(result.is_ok(), len >= end, "{len} of {}", bytes.len());
            match result {
                Ok(_)
                | Err(Error::Truncated { .. } | Error::CountTooLarge { .. } | Error::OutOfFile { .. }) => {}
                Err(other) => panic!("{len}: {other}"),
            }
        }
    }
}
