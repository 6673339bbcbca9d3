//! Weights quantized by their libraries (`golden/dialects`), compared with the values that these libraries,
//! or their formulas, decode.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::PathBuf,
};

use gguf_checkpoint::{Checkpoint, Tensor};

fn golden(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../golden/dialects").join(name)
}

fn names() -> Vec<String> {
    let folders = fs::read_dir(golden("")).unwrap().map(|entry| entry.unwrap().file_name());
    let names: BTreeSet<String> = folders.map(|name| name.into_string().unwrap()).collect();
    assert!(names.len() >= 2, "{names:?}");
    names.into_iter().collect()
}

/// False for libraries that round more than once when decoding: their output is compared with an emulation
/// inside the crate, which has access to the pieces.
fn rounds_once(name: &str) -> bool {
    let twice = ["hqq", "mlx-affine", "mlx-llama", "mlx-metal", "quanto-packed", "torchao-int4"];
    !twice.iter().any(|twice| name.starts_with(twice))
}

fn values(checkpoint: &Checkpoint, tensor: &Tensor) -> Vec<f32> {
    let mut values = vec![f32::NAN; (tensor.n_rows() * tensor.row_elems()) as usize];
    checkpoint.read_rows(tensor, tensor.row_elems(), 0..tensor.n_rows(), &mut values).unwrap();
    values
}

/// Digest of values in a library's type.
fn digest(values: &[f32], dtype: &str) -> String {
    let bytes: Vec<u8> = match dtype {
        "bfloat16" => values.iter().flat_map(|value| gguf_testkit::bf16(*value)).collect(),
        "float16" => values.iter().flat_map(|value| gguf_testkit::f16(*value)).collect(),
        _ => values.iter().flat_map(|value| value.to_le_bytes()).collect(),
    };
    gguf_testkit::sha256(&bytes)
}

#[test]
fn values_match_libraries() {
    for name in names() {
        let checkpoint = crate::open(&golden(&name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        let expected = fs::read_to_string(golden(&name).join("expected.txt")).unwrap();
        let mut compared = BTreeSet::new();
        for line in expected.lines().filter(|line| !line.starts_with('*')) {
            let (tensor_name, what) = line.split_once(' ').unwrap();
            let tensor = checkpoint.tensor(tensor_name);
            let tensor = tensor.unwrap_or_else(|| panic!("{name}: no tensor {tensor_name}"));
            let [form, rest @ .., expected] = &what.split(' ').collect::<Vec<_>>()[..] else {
                panic!("{line}")
            };
            let values = values(&checkpoint, tensor);
            match (*form, rest) {
                ("value", [shape]) => {
                    let found: Vec<String> = tensor.shape.iter().map(u64::to_string).collect();
                    assert_eq!(format!("[{}]", found.join(",")), *shape, "{name}: {tensor_name}");
                    assert_eq!(digest(&values, "float32"), *expected, "{name}: {tensor_name}: values in f32");
                    compared.insert(tensor_name);
                }
                ("float32" | "float16" | "bfloat16", []) if rounds_once(&name) => {
                    assert_eq!(digest(&values, form), *expected, "{name}: {tensor_name} in {form}");
                }
                ("float32" | "float16" | "bfloat16", []) | ("codes" | "scales" | "zeros", ["f32"]) => {}
                ("blocks", [dtype]) => {
                    let dtype = gguf_types::DType::from_name(dtype).unwrap();
                    let mut blocks = Vec::new();
                    checkpoint.repack(tensor, dtype, 0..tensor.n_rows(), &mut blocks).unwrap();
                    assert_eq!(gguf_testkit::sha256(&blocks), *expected, "{name}: {tensor_name}: {dtype}");
                }
                _ => panic!("{name}: {line}"),
            }
        }
        // Every decoded tensor has an expected value.
        let decoded = checkpoint.tensors.iter().filter(|tensor| tensor.stored.is_some());
        let decoded: BTreeSet<&str> = decoded.map(|tensor| tensor.name.as_str()).collect();
        assert!(decoded.is_subset(&compared), "{name}: {decoded:?} {compared:?}");
        assert!(!decoded.is_empty(), "{name}");
    }
}

#[test]
fn partial_reads_match_the_whole() {
    for name in names() {
        let checkpoint = crate::open(&golden(&name)).unwrap();
        let mut draw = gguf_testkit::Draw::new(14);
        for tensor in checkpoint.tensors.iter().filter(|tensor| tensor.stored.is_some()) {
            let whole = values(&checkpoint, tensor);
            let (n_rows, n_columns) = (tensor.n_rows(), tensor.row_elems());
            for _ in 0..6 {
                let mut range = |n: u64| {
                    let first = draw.below(n as usize) as u64;
                    first..first + 1 + draw.below((n - first) as usize) as u64
                };
                let (rows, columns) = (range(n_rows), range(n_columns));
                let expected: Vec<u32> = rows
                    .clone()
                    .flat_map(|row| columns.clone().map(move |column| row * n_columns + column))
                    .map(|at| whole[at as usize].to_bits())
                    .collect();
                let mut found = vec![f32::NAN; expected.len()];
                checkpoint.read_columns(tensor, rows.clone(), columns.clone(), &mut found).unwrap();
                let found: Vec<u32> = found.into_iter().map(f32::to_bits).collect();
                assert_eq!(found, expected, "{name}: {} {rows:?} {columns:?}", tensor.name);
            }
        }
    }
}

/// The byte ranges of all rows together cover all codes, and no range leaves its file.
#[test]
fn spans_cover_the_codes() {
    for name in names() {
        let checkpoint = crate::open(&golden(&name)).unwrap();
        for tensor in &checkpoint.tensors {
            let Some(stored) = &tensor.stored else { continue };
            let mut bytes: BTreeMap<usize, BTreeSet<u64>> = BTreeMap::new();
            for row in 0..tensor.n_rows() {
                for span in stored.spans(row..row + 1) {
                    assert!(span.of(&checkpoint.parts).is_ok(), "{name}: {}", tensor.name);
                    bytes.entry(span.part).or_default().extend(span.bytes);
                }
            }
            let codes = tensor.begin..tensor.end;
            let missing = codes.filter(|byte| !bytes[&tensor.part].contains(byte)).count();
            assert_eq!(missing, 0, "{name}: {}", tensor.name);
            let whole: u64 =
                stored.spans(0..tensor.n_rows()).iter().map(|s| s.bytes.end - s.bytes.start).sum();
            let each: u64 = bytes.values().map(|bytes| bytes.len() as u64).sum();
            assert_eq!(whole, each, "{name}: {}: spans of all rows together", tensor.name);
        }
    }
}
