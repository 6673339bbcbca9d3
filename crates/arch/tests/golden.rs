//! Every checkpoint of `golden/arch` against what the reference converter said of it: keys
//! (name, type, value, order), tensors (name, shape, order, which stay f32), file names.
//!
//! The values of tensors are compared where they are converted, in the `convert` crate. Here,
//! computed tensors and the order of rows are.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on stops")]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use arch::{Data, Input, Layout, Options, OutTensor, SourceTensor};
use gguf::{Array, Value};
use serde_json::{Value as Json, json};
use sha2::{Digest, Sha256};
use source::Checkpoint;

fn checkpoints() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden/arch");
    let mut folders: Vec<PathBuf> = std::fs::read_dir(root)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.join("expected.json").is_file())
        .collect();
    folders.sort();
    assert!(folders.len() >= 20, "only {} checkpoints", folders.len());
    folders
}

fn input(checkpoint: &Checkpoint) -> Input<'_> {
    Input {
        config: checkpoint.config.clone(),
        generation_config: checkpoint.generation_config.clone(),
        files: checkpoint.files.iter().map(|(name, bytes)| (name.clone(), bytes.as_slice())).collect(),
        card: checkpoint.card.clone(),
        folder_name: checkpoint.folder_name.clone(),
        tensors: checkpoint
            .tensors
            .iter()
            .map(|tensor| SourceTensor { name: tensor.name.clone(), shape: tensor.shape().unwrap() })
            .collect(),
    }
}

/// A value as the golden files spell it.
fn spell(value: &Value) -> (String, Json) {
    match value {
        Value::U32(v) => ("u32".into(), json!(v)),
        Value::I32(v) => ("i32".into(), json!(v)),
        Value::F32(v) => ("f32".into(), json!(f64::from(*v))),
        Value::Bool(v) => ("bool".into(), json!(v)),
        Value::String(v) => ("str".into(), json!(std::str::from_utf8(v).unwrap())),
        Value::Array(array) => {
            let (inner, items, bytes) = match array {
                Array::String(items) => {
                    let bytes = items
                        .iter()
                        .flat_map(|item| [&(item.len() as u64).to_le_bytes(), item.as_slice()].concat());
                    let texts = items.iter().map(|item| json!(String::from_utf8_lossy(item))).collect();
                    ("str", texts, bytes.collect::<Vec<u8>>())
                }
                Array::F32(items) => {
                    let bytes = items.iter().flat_map(|item| item.to_le_bytes()).collect();
                    ("f32", items.iter().map(|item| json!(f64::from(*item))).collect::<Vec<_>>(), bytes)
                }
                Array::I32(items) => {
                    let bytes = items.iter().flat_map(|item| item.to_le_bytes()).collect();
                    ("i32", items.iter().map(|item| json!(item)).collect(), bytes)
                }
                other => panic!("no golden has {other:?}"),
            };
            let value = if items.len() > 16 {
                json!({"len": items.len(), "sha256": sha256(&bytes)})
            } else {
                json!(items)
            };
            (format!("arr[{inner}]"), value)
        }
        other => panic!("no golden has {other:?}"),
    }
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

/// Keys as the reference's file has them at `file_type`.
fn keys(layout: &Layout, file_type: u32) -> Vec<Json> {
    let mut keys: Vec<(String, Value)> = layout.metadata.clone();
    assert!(layout.file_type_at <= layout.quantization_version_at);
    keys.insert(layout.quantization_version_at, ("general.quantization_version".into(), Value::U32(2)));
    keys.insert(layout.file_type_at, ("general.file_type".into(), Value::U32(file_type)));
    keys.iter()
        .map(|(key, value)| {
            let (kind, value) = spell(value);
            json!([key, kind, value])
        })
        .collect()
}

/// A tensor's elements in f32, through its sources, row by row.
fn elements(tensor: &OutTensor, checkpoint: &Checkpoint) -> Vec<f32> {
    let (sources, rows) = match &tensor.data {
        Data::Computed(values) => return values.clone(),
        Data::Rows { sources, rows, .. } => (sources, rows),
    };
    let view = tensor.row_view();
    let mut source_rows = Vec::new();
    for name in sources {
        let found = checkpoint.tensor(name).unwrap();
        let source = checkpoint.view(found);
        let mut values = vec![0.0; (source.row_elems() * source.n_rows()) as usize];
        source::read_rows(&source, 0, source.n_rows(), &mut values).unwrap();
        source_rows.extend(values.chunks(view.row_elems as usize).map(<[f32]>::to_vec));
    }
    assert_eq!(source_rows.len() as u64, view.n_rows, "{}", tensor.name);
    (0..view.n_rows).flat_map(|row| source_rows[rows.source_row(row, view.n_rows) as usize].clone()).collect()
}

#[test]
fn every_checkpoint_resolves_as_the_reference_resolves_it() {
    let mut wrong = String::new();
    for folder in checkpoints() {
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        let expected: Json =
            serde_json::from_slice(&std::fs::read(folder.join("expected.json")).unwrap()).unwrap();
        let checkpoint = source::open(&folder).unwrap();
        let input = input(&checkpoint);
        let pre = expected["pre"].as_str().filter(|pre| *pre != "default").map(str::to_owned);
        let layout = match arch::resolve(&input, &Options { pre, ..Options::default() }) {
            Ok(layout) => layout,
            Err(error) => {
                writeln!(wrong, "{name}: {error}").unwrap();
                continue;
            }
        };
        compare(&name, "key", &keys(&layout, 0), expected["metadata"].as_array().unwrap(), &mut wrong);
        let tensors: Vec<Json> = layout
            .tensors
            .iter()
            .map(|tensor| {
                let bytes: Vec<u8> =
                    elements(tensor, &checkpoint).iter().flat_map(|value| value.to_le_bytes()).collect();
                let low = if tensor.keep_f32 { "f32" } else { "bf16" };
                json!([tensor.name, tensor.shape.dims(), "f32", sha256(&bytes), low])
            })
            .collect();
        let listed: Vec<Json> = expected["tensors"]
            .as_array()
            .unwrap()
            .iter()
            .map(|tensor| {
                json!([tensor[0], tensor[1], tensor[2]["f32"][0], tensor[2]["f32"][1], tensor[2]["bf16"][0]])
            })
            .collect();
        compare(&name, "tensor", &tensors, &listed, &mut wrong);
        for (file_type, expected) in expected["file_name"].as_object().unwrap() {
            let ours = arch::default_file_name(&layout.metadata, file_type);
            compare(&name, "file name", &[json!(ours)], std::slice::from_ref(expected), &mut wrong);
        }
        let used: usize = layout
            .tensors
            .iter()
            .map(|tensor| if let Data::Rows { sources, .. } = &tensor.data { sources.len() } else { 0 })
            .sum();
        assert_eq!(
            used + layout.dropped.len(),
            input.tensors.len(),
            "{name}: every source is used once or dropped"
        );
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

fn compare(name: &str, what: &str, ours: &[Json], expected: &[Json], wrong: &mut String) {
    for i in 0..ours.len().max(expected.len()) {
        let none = Json::Null;
        let (a, b) = (ours.get(i).unwrap_or(&none), expected.get(i).unwrap_or(&none));
        if a != b {
            writeln!(wrong, "{name}: {what} {i}: {a} instead of {b}").unwrap();
        }
    }
}
