//! Every checkpoint of `golden/arch` against what the reference converter said of it: keys
//! (name, type, value, order), tensors (name, shape, order, which stay f32), file names.
//!
//! The values of tensors are compared where they are converted, in the `convert` crate. Here,
//! computed tensors and the order of rows are.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gguf_checkpoint::Checkpoint;
use gguf_layout::{Data, ElementMap, Input, Layout, Options, OutTensor, Prediction, RowMap, SourceTensor};
use gguf_testkit::{golden_value, sha256};
use serde_json::{Value as Json, json};

pub fn checkpoints() -> Vec<PathBuf> {
    gguf_testkit::checkpoint_names().iter().map(|name| gguf_testkit::checkpoint(name)).collect()
}

/// Options of the reference's run besides a pre-tokenizer.
pub fn options(expected: &Json) -> Options {
    let target = expected["target"].as_str().map(|name| {
        let gguf_checkpoint::Checkpoint { config, generation_config, files, .. } =
            gguf_checkpoint::open_without_weights(gguf_testkit::checkpoint(name).as_path()).unwrap();
        Arc::new(gguf_layout::Target { config, generation_config, files })
    });
    let prediction = match expected["prediction"].as_str() {
        Some("only") => Prediction::Only,
        Some("without") => Prediction::Without,
        _ => Prediction::With,
    };
    let dense_modules = expected["options"]["sentence_transformers_dense_modules"] == true;
    Options { target, prediction, dense_modules, equal_scores: true, ..Options::new(gguf_models::FAMILIES) }
}

pub fn expected_of(folder: &Path) -> Json {
    serde_json::from_slice(&std::fs::read(folder.join("expected.json")).unwrap()).unwrap()
}

#[test]
fn every_architecture_has_a_golden() {
    let mut without: BTreeSet<&str> = gguf_models::ARCHES.iter().map(|arch| arch.name).collect();
    for folder in checkpoints() {
        let checkpoint =
            gguf_checkpoint::open(gguf_checkpoint::Folder::from(&folder).forms(gguf_models::FORMS)).unwrap();
        let row = gguf_layout::row_of(&gguf_models::FAMILIES, &input(&checkpoint));
        without.remove(row.unwrap_or_else(|error| panic!("{}: {error}", folder.display())).name);
    }
    // Layouts without a config: the whole files of these are compared in `convert`.
    for entry in std::fs::read_dir(gguf_testkit::golden_path("torch")).unwrap() {
        let folder = entry.unwrap().path();
        if folder.join("params.json").is_file() {
            let checkpoint =
                gguf_checkpoint::open(gguf_checkpoint::Folder::from(&folder).forms(gguf_models::FORMS))
                    .unwrap();
            let row = gguf_layout::row_of(&gguf_models::FAMILIES, &input(&checkpoint));
            without.remove(row.unwrap_or_else(|error| panic!("{}: {error}", folder.display())).name);
        }
    }
    // Models that adapters make of others: the whole files of these are compared in `tests/convert/lora_merge.rs`.
    without.retain(|name| !gguf_testkit::golden_path("lora-merged").join(name).is_dir());
    assert!(without.is_empty(), "rows of ARCHES without a checkpoint in golden: {without:?}");
}

fn kept(tensor: &gguf_checkpoint::Tensor) -> Option<(String, gguf_types::StoredBlocks)> {
    Some((tensor.name.clone(), tensor.stored.as_ref()?.stored_blocks()?.clone()))
}

pub fn input(checkpoint: &Checkpoint) -> Input<'_> {
    Input {
        decoded: checkpoint.settled,
        stored_blocks: checkpoint.tensors.iter().filter_map(kept).collect(),
        config: checkpoint.config.clone(),
        generation_config: checkpoint.generation_config.clone(),
        files: checkpoint.files.iter().map(|(name, bytes)| (name.clone(), bytes.as_slice())).collect(),
        card: checkpoint.card.clone(),
        folder_name: checkpoint.folder_name.clone(),
        integers: Some(gguf_layout::Integers::new(|name| {
            let view = checkpoint.view(checkpoint.tensor(name)?).unwrap();
            let is_one = view.dtype == gguf_checkpoint::Dtype::I64;
            let words = view.bytes.as_chunks::<8>().0;
            is_one.then(|| words.iter().map(|bytes| i64::from_le_bytes(*bytes)).collect())
        })),
        same: Some(gguf_layout::SameValues::new(|a, b| {
            let bytes = |name| checkpoint.tensor(name).map(|tensor| checkpoint.view(tensor).unwrap().bytes);
            bytes(a) == bytes(b)
        })),
        values: Some(gguf_layout::TensorValues::new(|name| {
            let tensor = checkpoint.tensor(name)?;
            let n_elems: u64 = tensor.shape.iter().product();
            let mut values = vec![0.0; n_elems as usize];
            checkpoint.read_rows(tensor, n_elems, 0..1, &mut values).ok().map(|()| values)
        })),
        zero_rows: Some(gguf_layout::ZeroRows::new(|name, first| {
            let tensor = checkpoint.tensor(name)?;
            let mut values = vec![0.0; tensor.row_elems() as usize];
            let is_zero = |row: &u64| {
                checkpoint.read_rows(tensor, tensor.row_elems(), *row..row + 1, &mut values).unwrap();
                values.iter().all(|value| *value == 0.0)
            };
            Some((first..tensor.n_rows()).filter(is_zero).collect())
        })),
        tensors: checkpoint
            .tensors
            .iter()
            .map(|tensor| {
                let (shape, folded) = tensor.folded_shape().unwrap();
                SourceTensor { name: tensor.name.clone(), shape, folded }
            })
            .collect(),
    }
}

/// Correct warnings about goldens: the reference's files lack the key.
const REPORTED: &[(&str, &str, &str)] = &[
    // The reference knows what is rotated by the Hub's `attn_rotary_emb` alone, and permutes rows as if all of a head were.
    ("bamba", "rope_parameters.partial_rotary_factor", "0.5"),
    // Attention sees all of the context in llama.cpp.
    ("cwm", "layer_types", "[\"full_attention\",\"sliding_attention\"]"),
    ("cwm", "sliding_window", "64"),
    // The factor is in the weights of an output, and this model has none.
    ("falcon-h1-old", "lm_head_multiplier", "0.0390625"),
    // As for CWM.
    ("ministral", "layer_types", "[\"sliding_attention\",\"sliding_attention\"]"),
    ("ministral", "sliding_window", "64"),
    ("mistral", "sliding_window", "128"),
    // No graph of llama.cpp clips here.
    ("olmoe-old", "clip_qkv", "8.0"),
    // The reference computes one factor of the lengths.
    ("phimoe", "rope_parameters.long_mscale", "1.5"),
    ("phimoe", "rope_parameters.short_mscale", "1.25"),
    ("phimoe-old", "rope_parameters.long_mscale", "1.5"),
    ("phimoe-old", "rope_parameters.short_mscale", "1.25"),
    // As of Mistral.
    ("plamo2", "attention_window_size", "2048"),
    ("starcoder2", "sliding_window", "128"),
];

#[test]
fn mathematical_keys_are_read_or_reported() {
    let mut found = Vec::new();
    for folder in checkpoints() {
        let checkpoint =
            gguf_checkpoint::open(gguf_checkpoint::Folder::from(&folder).forms(gguf_models::FORMS)).unwrap();
        let options = options(&expected_of(&folder));
        let Ok(layout) = gguf_layout::resolve(&input(&checkpoint), &options) else { continue };
        for key in layout.unread_keys.iter().filter(|key| key.is_mathematics) {
            let name = folder.file_name().unwrap().to_string_lossy().into_owned();
            found.push((name, key.key.clone(), key.value.to_string()));
        }
    }
    let owned = |(name, key, value): &(&str, &str, &str)| ((*name).into(), (*key).into(), (*value).into());
    assert_eq!(found, REPORTED.iter().map(owned).collect::<Vec<(String, String, String)>>());
}

/// Keys as the reference's file has them at `file_type`.
fn keys(layout: &Layout, file_type: u32) -> Vec<Json> {
    let mut keys = layout.metadata.clone();
    keys.set("general.quantization_version", 2u32);
    if keys.contains("general.file_type") {
        keys.set("general.file_type", file_type);
    }
    keys.iter()
        .map(|(key, value)| {
            let (kind, value) = golden_value(value);
            json!([key, kind, value])
        })
        .collect()
}

/// Rows of a tensor of the checkpoint.
fn rows_of(checkpoint: &Checkpoint, name: &str) -> Vec<Vec<f32>> {
    let view = checkpoint.view(checkpoint.tensor(name).unwrap()).unwrap();
    let mut values = vec![0.0; (view.row_elems() * view.n_rows()) as usize];
    gguf_checkpoint::read_rows(&view, 0, view.n_rows(), &mut values).unwrap();
    values.chunks(view.row_elems() as usize).map(<[f32]>::to_vec).collect()
}

/// A tensor's elements in f32, through its sources, row by row; none for blocks that stay as they
/// are.
fn elements(tensor: &OutTensor, checkpoint: &Checkpoint) -> Option<Vec<f32>> {
    let (sources, rows, element, matrix) = match &tensor.data {
        Data::Computed(values) => return Some(values.clone()),
        Data::Integers { .. } => return None,
        Data::Combined { sources, by: gguf_layout::Combination::Product, .. } => {
            let factors: Vec<Vec<f32>> =
                sources.iter().map(|name| rows_of(checkpoint, name).concat()).collect();
            return Some(factors[0].iter().zip(&factors[1]).map(|(a, b)| a * b).collect());
        }
        Data::Extended { sources } => return Some(extended(sources, checkpoint)),
        Data::SideBySide { sources } => {
            let parts: Vec<Vec<Vec<f32>>> = sources.iter().map(|name| rows_of(checkpoint, name)).collect();
            let row = |row: usize| parts.iter().flat_map(move |part| part[row].iter().copied());
            return Some((0..parts[0].len()).flat_map(row).collect());
        }
        Data::Scattered { source, rows } => {
            let view = checkpoint.view(checkpoint.tensor(source).unwrap()).unwrap();
            let row_elems = view.row_elems() as usize;
            let mut values = vec![0.0; tensor.shape.n_elems() as usize];
            for (row, place) in (0..).zip(rows) {
                let at = *place as usize * row_elems;
                gguf_checkpoint::read_rows(&view, row, 1, &mut values[at..at + row_elems]).unwrap();
            }
            return Some(values);
        }
        Data::Combined { .. } => panic!("{}: only tests of projectors cover this combination", tensor.name),
        _ if tensor.stored_dtype.is_some() => return None,
        Data::Rows { sources, rows, element } => (sources.as_slice(), rows, element, None),
        Data::Columns { source, matrix, rows, element } => {
            (std::slice::from_ref(source), rows, element, Some(matrix))
        }
    };
    let view = tensor.row_view();
    let mut source_rows = Vec::new();
    for name in sources {
        let found = checkpoint.tensor(name).unwrap();
        let source = checkpoint.view(found).unwrap();
        let mut values = vec![0.0; (source.row_elems() * source.n_rows()) as usize];
        gguf_checkpoint::read_rows(&source, 0, source.n_rows(), &mut values).unwrap();
        if let Some(matrix) = matrix {
            let group = values.chunks((matrix.group * source.row_elems()) as usize);
            let taken = group.flat_map(|group| {
                let first = (matrix.start * source.row_elems()) as usize;
                group[first..first + (view.row_elems * source.row_elems()) as usize].iter().copied()
            });
            let taken: Vec<f32> = taken.collect();
            values = transposed(&taken, view.row_elems as usize, source.row_elems() as usize);
        }
        let piece = view.row_elems / rows.pieces();
        source_rows.extend(values.chunks(piece as usize).map(<[f32]>::to_vec));
    }
    if matches!(rows, RowMap::Concat | RowMap::RopePermute { .. }) {
        assert_eq!(source_rows.len() as u64, view.n_rows, "{}", tensor.name);
    }
    let dtype = checkpoint.tensor(&sources[0]).unwrap().dtype;
    let half = dtype == gguf_checkpoint::Dtype::F16;
    assert!(!half || *element == ElementMap::Identity, "{}: convert tests rounding", tensor.name);
    let mut element = *element;
    if element.needs_mean() {
        let magnitudes = matches!(element, ElementMap::Ternary { .. });
        let values = || {
            source_rows.iter().flatten().map(|value| f64::from(if magnitudes { value.abs() } else { *value }))
        };
        element =
            element.with_sum(values().sum(), values().count() as u64, dtype == gguf_checkpoint::Dtype::BF16);
    }
    let pieces = rows.pieces();
    let n_pieces = view.n_rows * pieces;
    let map = rows.source_rows(n_pieces);
    let zeros = vec![0.0; (view.row_elems / pieces) as usize];
    let padded = matches!(rows, RowMap::Pad { .. } | RowMap::AfterZeros { .. });
    let rows = (0..n_pieces).flat_map(|piece| {
        let row = usize::try_from(map.source_row(piece)).unwrap();
        let values = if padded { source_rows.get(row).unwrap_or(&zeros) } else { &source_rows[row] };
        values.iter().map(move |v| (piece / pieces, *v))
    });
    Some(rows.map(|(row, value)| element.apply(row, value, |value| value)).collect())
}

/// Rows of tensors, then the product of the last two, rounded to F16 if that is the type of the first.
fn extended(sources: &[String], checkpoint: &Checkpoint) -> Vec<f32> {
    let values = |name: &String| {
        let view = checkpoint.view(checkpoint.tensor(name).unwrap()).unwrap();
        let mut values = vec![0.0; (view.row_elems() * view.n_rows()) as usize];
        gguf_checkpoint::read_rows(&view, 0, view.n_rows(), &mut values).unwrap();
        values
    };
    let [taken @ .., matrix, vector] = sources else { panic!("{sources:?}") };
    let vector = values(vector);
    let mut all: Vec<f32> = taken.iter().flat_map(values).collect();
    // Values of the golden are such that every order of the sum has the same result.
    let rows = values(matrix);
    all.extend(rows.chunks(vector.len()).map(|row| row.iter().zip(&vector).map(|(a, b)| a * b).sum::<f32>()));
    if checkpoint.tensor(&taken[0]).unwrap().dtype == gguf_checkpoint::Dtype::F16 {
        for value in &mut all {
            *value = gguf_types::half::f16_to_f32(u16::from_le_bytes(gguf_testkit::f16(*value)));
        }
    }
    all
}

/// Matrices of `n_rows` and `n_columns`, each transposed.
fn transposed(values: &[f32], n_rows: usize, n_columns: usize) -> Vec<f32> {
    let matrices = values.chunks(n_rows * n_columns);
    let turn = |matrix: &[f32]| -> Vec<f32> {
        (0..n_columns).flat_map(|c| (0..n_rows).map(move |r| r * n_columns + c)).map(|i| matrix[i]).collect()
    };
    matrices.flat_map(turn).collect()
}

/// Name, shape, type, digest of the values, and type in a file of low precision.
fn described(tensor: &OutTensor, layout: &Layout, checkpoint: &Checkpoint) -> Json {
    if layout.source_types {
        return json!([tensor.name, tensor.shape.dims()]);
    }
    if let Data::Integers { values, .. } = &tensor.data {
        let dtype = tensor.stored_dtype.unwrap().name();
        let bytes: Vec<u8> = match dtype {
            "i64" => values.iter().flat_map(|value| value.to_le_bytes()).collect(),
            _ => values.iter().flat_map(|value| (*value as i32).to_le_bytes()).collect(),
        };
        return json!([tensor.name, tensor.shape.dims(), dtype, sha256(&bytes), dtype]);
    }
    let Some(elements) = elements(tensor, checkpoint) else {
        return json!([tensor.name, tensor.shape.dims(), "mxfp4", "blocks", "mxfp4"]);
    };
    let bytes: Vec<u8> = elements.iter().flat_map(|value| value.to_le_bytes()).collect();
    let low = tensor.float.dtype(gguf_types::DType::BF16).name();
    json!([tensor.name, tensor.shape.dims(), "f32", sha256(&bytes), low])
}

/// The same facts of a tensor of the reference.
fn recorded(tensor: &Json, layout: &Layout) -> Json {
    // The values of blocks are compared where they are converted, and so are types that the checkpoint decides.
    if layout.source_types {
        return json!([tensor[0], tensor[1]]);
    }
    let dtypes = tensor[2].as_object().unwrap();
    let high = &dtypes["f32"][0];
    let low = &dtypes.get("bf16").unwrap_or(&dtypes["f32"])[0];
    let values = if high == "mxfp4" { json!("blocks") } else { dtypes["f32"][1].clone() };
    json!([tensor[0], tensor[1], high, values, low])
}

#[test]
fn layouts_match_reference() {
    let mut wrong = String::new();
    for folder in checkpoints() {
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        let expected = expected_of(&folder);
        let checkpoint =
            gguf_checkpoint::open(gguf_checkpoint::Folder::from(&folder).forms(gguf_models::FORMS)).unwrap();
        let input = input(&checkpoint);
        let pre = expected["pre"].as_str().filter(|pre| *pre != "default").map(str::to_owned);
        let layout = match gguf_layout::resolve(&input, &Options { pre, ..options(&expected) }) {
            Ok(layout) => layout,
            Err(error) => {
                writeln!(wrong, "{name}: {error}").unwrap();
                continue;
            }
        };
        let mut theirs = expected["metadata"].as_array().unwrap().clone();
        let mut ours = keys(&layout, layout.packed_file_type.map_or(0, |(id, _)| id));
        let departed: BTreeSet<&str> =
            layout.departed.iter().map(|departed| departed.name.as_str()).collect();
        assert_eq!(departed, crate::documented::names(&name), "{name}: differences that the layout records");
        crate::documented::take(&name, &mut ours, &mut theirs);
        compare(&name, "key", &ours, &theirs, &mut wrong);
        let mut tensors: Vec<Json> =
            layout.tensors.iter().map(|tensor| described(tensor, &layout, &checkpoint)).collect();
        let listed = expected["tensors"].as_array().unwrap().iter();
        let listed: Vec<Json> = listed.map(|tensor| recorded(tensor, &layout)).collect();
        for (_, added, source) in crate::documented::ADDED.iter().filter(|(of, ..)| *of == name) {
            let place = tensors.iter().position(|tensor| tensor[0] == *added).unwrap();
            let view = checkpoint.view(checkpoint.tensor(source).unwrap()).unwrap();
            let mut values = vec![0.0; (view.row_elems() * view.n_rows()) as usize];
            gguf_checkpoint::read_rows(&view, 0, view.n_rows(), &mut values).unwrap();
            let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
            assert_eq!(tensors.remove(place)[3], sha256(&bytes), "{name}: {added}");
        }
        compare(&name, "tensor", &tensors, &listed, &mut wrong);
        for (file_type, expected) in expected["file_name"].as_object().unwrap() {
            let file_type = layout.packed_file_type.map_or(file_type.as_str(), |(_, name)| name);
            let ours = if layout.prediction_only {
                gguf_layout::prediction_file_name(&layout.metadata, file_type)
            } else {
                gguf_layout::default_file_name(&layout.metadata, file_type)
            };
            // Some classes of the reference give a prediction the name of the whole model.
            if layout.prediction_only && !expected.as_str().unwrap().starts_with("mtp-") {
                assert!(ours.starts_with("mtp-"));
                continue;
            }
            let label =
                crate::documented::of(&name).find(|difference| difference.key == "general.size_label");
            if let Some((_, label)) = label.and_then(|difference| difference.value) {
                assert!(ours.contains(label().as_str().unwrap()), "{name}: {ours}");
                continue;
            }
            compare(&name, "file name", &[json!(ours)], std::slice::from_ref(expected), &mut wrong);
        }
        let used = layout.tensors.iter().flat_map(|tensor| tensor.data.sources());
        let dropped = layout.dropped.iter().map(|dropped| &dropped.name);
        let named: BTreeSet<&String> = used.chain(dropped).collect();
        assert_eq!(named.len(), input.tensors.len(), "{name}: every source is used or dropped");
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

/// Names of tensors, with `#` for layers and experts, that a checkpoint can lack because no key says whether they
/// are there. The list is exact: one that never comes up fails too. `BLESS=1` writes it anew.
const CAN_BE_ABSENT: &str = include_str!("can_be_absent.txt");

/// Every tensor of every checkpoint, taken away alone: it is named before anything is made, or the model can do
/// without it.
#[test]
fn missing_tensors_are_named() {
    let mut silent: BTreeSet<String> = BTreeSet::new();
    let mut n_named = 0;
    for folder in checkpoints() {
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        let checkpoint =
            gguf_checkpoint::open(gguf_checkpoint::Folder::from(&folder).forms(gguf_models::FORMS)).unwrap();
        let options = options(&expected_of(&folder));
        let whole = gguf_layout::resolve_weights(&input(&checkpoint), &options).unwrap();
        let used: BTreeSet<&String> = whole.tensors.iter().flat_map(|tensor| tensor.data.sources()).collect();
        for tensor in used {
            let mut less = input(&checkpoint);
            less.tensors.retain(|have| have.name != *tensor);
            match gguf_layout::resolve_weights(&less, &options) {
                Err(gguf_layout::ArchError::MissingTensors { names }) => {
                    assert!(!names.is_empty(), "{name} without `{tensor}`");
                    n_named += 1;
                }
                // Half a fused or packed tensor is named as such.
                Err(error) => {
                    assert!(error.to_string().contains('`'), "{name} without `{tensor}`: {error}");
                    n_named += 1;
                }
                Ok(_) => {
                    let is_number = |part: &&str| part.bytes().all(|byte| byte.is_ascii_digit());
                    let parts = tensor.split('.').map(|part| if is_number(&part) { "#" } else { part });
                    silent.insert(parts.collect::<Vec<_>>().join("."));
                }
            }
        }
    }
    assert!(n_named > 2000, "{n_named}");
    if std::env::var_os("BLESS").is_some() {
        let lines: String = silent.iter().map(|name| format!("{name}\n")).collect();
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all/can_be_absent.txt");
        return std::fs::write(path, lines).unwrap();
    }
    let listed: BTreeSet<String> = CAN_BE_ABSENT.lines().map(str::to_owned).collect();
    let unlisted: Vec<&String> = silent.difference(&listed).collect();
    let needed: Vec<&String> = listed.difference(&silent).collect();
    assert!(unlisted.is_empty() && needed.is_empty(), "not listed: {unlisted:#?}\nneeded: {needed:#?}");
}

#[test]
fn missing_layer_matrix_is_named_in_every_spelling() {
    let names = ["chatglm", "glm", "cohere", "cohere-old", "persimmon", "stablelm", "stablelm-old"];
    let is_one = |folder: &PathBuf| names.iter().any(|name| folder.ends_with(name));
    let folders: Vec<PathBuf> = checkpoints().into_iter().filter(is_one).collect();
    assert_eq!(folders.len(), names.len());
    for folder in folders {
        let checkpoint =
            gguf_checkpoint::open(gguf_checkpoint::Folder::from(&folder).forms(gguf_models::FORMS)).unwrap();
        let of_layers = |name: &&String| name.contains(".1.") && name.ends_with(".weight");
        let all: Vec<String> = input(&checkpoint).tensors.into_iter().map(|tensor| tensor.name).collect();
        for name in all.iter().filter(of_layers) {
            let mut less = input(&checkpoint);
            less.tensors.retain(|tensor| tensor.name != *name);
            match gguf_layout::resolve_weights(&less, &Options::new(gguf_models::FAMILIES)) {
                // The error names the spelling of transformers.
                Err(gguf_layout::ArchError::MissingTensors { names }) if folder.ends_with("chatglm") => {
                    assert_eq!(names.len(), 1, "{names:?} for `{name}`");
                }
                Err(gguf_layout::ArchError::MissingTensors { names }) => assert_eq!(names, [name.as_str()]),
                other => panic!("{} without `{name}`: {:?}", folder.display(), other.map(|_| "no error")),
            }
        }
    }
}
