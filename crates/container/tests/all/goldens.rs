//! Files written by the reference (golden/MANIFEST): read, and written again byte for byte.

use std::{collections::BTreeSet, path::PathBuf};

use gguf_container::{Array, Endian, File, Plan, Value, swap_blocks};
use gguf_types::{DType, Shape};

fn open(name: &str) -> File {
    open_golden(&format!("gguf/{name}"))
}

fn open_golden(name: &str) -> File {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../golden").join(name);
    File::open(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Plans the contents of `file`, with `shape` applied to each shape, and writes them to memory.
fn write_again(file: &File, shape: impl Fn(Shape) -> Shape) -> Vec<u8> {
    let tensors = file.tensors().iter().map(|t| (t.name.clone(), shape(t.shape), t.dtype)).collect();
    let data: Vec<&[u8]> = file.tensors().iter().map(|tensor| file.data(tensor).unwrap()).collect();
    let plan = Plan::new(file.metadata(), tensors, file.endian(), file.alignment()).unwrap();
    plan.to_bytes(&data).unwrap()
}

#[test]
fn rewritten_file_matches_gguf_py() {
    for (name, endian, alignment) in [
        ("py-little.gguf", Endian::Little, 32),
        ("py-big.gguf", Endian::Big, 128),
        ("py-flat.gguf", Endian::Little, 32),
    ] {
        let file = open(name);
        assert_eq!((file.version(), file.endian(), file.alignment()), (3, endian, alignment));
        assert!(write_again(&file, |shape| shape) == file.bytes()[..], "{name}");
    }
}

#[test]
fn rewritten_file_matches_gguf_cpp() {
    let effective = |shape: Shape| Shape::new(&shape.dims()[..shape.n_dims_effective()]).unwrap();
    let expected = open("cpp-flat.gguf");
    assert_eq!(expected.tensor("ids").unwrap().shape.dims(), [1, 1, 11]);
    assert_eq!(expected.tensor("row").unwrap().shape.dims(), [9]);
    for name in ["py-flat.gguf", "cpp-flat.gguf"] {
        assert!(write_again(&open(name), effective) == expected.bytes()[..], "{name}");
    }
}

#[test]
fn values_match_gguf_py_input() {
    let file = open("py-little.gguf");
    for (key, expected) in [
        ("general.architecture", Value::from("test")),
        ("value.u8", Value::U8(200)),
        ("value.i8", Value::I8(-100)),
        ("value.u16", Value::U16(60000)),
        ("value.i16", Value::I16(-30000)),
        ("value.u32", Value::U32(4_000_000_000)),
        ("value.i32", Value::I32(-2_000_000_000)),
        ("value.f32", Value::F32(0.1)),
        ("value.true", Value::Bool(true)),
        ("value.false", Value::Bool(false)),
        ("value.str", Value::from("tea 茶")),
        ("value.u64", Value::U64(u64::MAX)),
        ("value.i64", Value::I64(i64::MIN)),
        ("value.f64", Value::F64(-1e-300)),
        ("array.i32", Value::Array(Array::I32(vec![1, -2, 3]))),
        ("array.f32", Value::Array(Array::F32(vec![0.5, -0.25]))),
        ("array.bool", Value::Array(Array::Bool(vec![true, false, true]))),
        ("array.str", Value::Array(Array::String(vec!["a", "", "é"].into()))),
        ("array.u8", Value::Array(Array::U8(vec![0, 255, 127]))),
        ("array.u64", Value::Array(Array::U64(vec![1, 1 << 63]))),
        (
            "array.array",
            Value::Array(Array::Array(vec![
                Array::I32(vec![1, 2, 3]),
                Array::String(vec!["x", "yy"].into()),
                Array::Array(vec![Array::Bool(vec![true]), Array::F32(vec![1.5, 2.5, 3.5])]),
            ])),
        ),
    ] {
        assert_eq!(file.get(key), Some(&expected), "{key}");
    }
    assert_eq!(file.metadata().len(), 21);
}

#[test]
fn byte_orders_hold_equal_values() {
    let (little, big) = (open("py-little.gguf"), open("py-big.gguf"));
    for (key, value) in little.metadata() {
        assert_eq!(big.get(key), Some(value), "{key}");
    }
    let mut n_swapped = 0;
    for tensor in big.tensors() {
        let mut data = big.data(tensor).unwrap().to_vec();
        swap_blocks(tensor.dtype, &mut data);
        assert_eq!(data, little.data(little.tensor(&tensor.name).unwrap()).unwrap(), "{}", tensor.name);
        n_swapped += 1;
    }
    assert_eq!(n_swapped, 5);
}

/// `blocks-big.gguf` by the structs of ggml-common.h, `listed-big.gguf` by the reference's own program.
#[test]
fn swapped_blocks_match_other_writers() {
    let mut dtypes = BTreeSet::new();
    for name in ["blocks", "listed"] {
        let little = open_golden(&format!("byte-orders/{name}.gguf"));
        let big = open_golden(&format!("byte-orders/{name}-big.gguf"));
        assert_eq!((little.endian(), big.endian()), (Endian::Little, Endian::Big));
        assert_eq!(little.metadata(), big.metadata());
        for (a, b) in little.tensors().iter().zip(big.tensors()) {
            let (a_data, b_data) = (little.data(a).unwrap(), big.data(b).unwrap());
            assert_eq!((&a.name, a.dtype, a.shape), (&b.name, b.dtype, b.shape));
            assert_eq!(&*Endian::Big.to_little(b.dtype, b_data), a_data, "{name}: {}", a.dtype);
            let mut turned = a_data.to_vec();
            swap_blocks(a.dtype, &mut turned);
            assert_eq!(turned, b_data, "{name}: {}", a.dtype);
            dtypes.insert(a.dtype.id());
        }
    }
    assert!(dtypes.iter().copied().eq(DType::ALL.iter().map(|dtype| dtype.id())));
}
