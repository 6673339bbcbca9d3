//! Folders of statistics: files written by hand from the description in `moments/file.rs`, and every invalid
//! file. Files of the library itself are compared with sums of models in `tests/models/moments.rs` of the
//! workspace.

use std::{fs, path::Path};

use gguf_container::{Array, DEFAULT_ALIGNMENT, Endian, File, Metadata, Plan, Value};
use gguf_refinement::{Error, Gram, moments::MomentsCache};
use gguf_types::{DType, Shape};
use tempfile::TempDir;

/// Matrices and the input of each: two that share one, and two experts.
const MATRICES: [(&str, &str, u64); 4] = [
    ("blk.0.attn_q.weight", "whole", 0),
    ("blk.0.attn_k.weight", "whole", 0),
    ("blk.0.ffn_down_exps.weight", "expert 0/2", 1),
    ("blk.0.ffn_down_exps.weight", "expert 1/2", 2),
];
const COLUMNS: [u64; 3] = [3, 2, 2];

#[derive(Clone)]
struct Step {
    metadata: Metadata,
    tensors: Vec<(String, Vec<u64>, DType, Vec<u8>)>,
    endian: Endian,
}

fn key(name: &str) -> String {
    format!("gguf_tools.moments.{name}")
}

fn strings<'a>(texts: impl IntoIterator<Item = &'a str>) -> Value {
    Value::Array(Array::String(texts.into_iter().collect()))
}

fn numbers(numbers: impl IntoIterator<Item = u64>) -> Value {
    Value::Array(Array::U64(numbers.into_iter().collect()))
}

fn floats(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// Upper halves of the sums of an input, rows concatenated: training and held-out tokens.
fn sums(input: usize) -> [Vec<f32>; 2] {
    match input {
        0 => [vec![4.0, 1.0, -2.0, 9.0, 0.5, 1.0], vec![1.0, 0.0, 0.0, 1.0, 0.0, 1.0]],
        1 => [vec![2.0, -1.0, 3.0], vec![0.0; 3]],
        _ => [vec![0.0; 3], vec![5.0, 2.0, 1.0]],
    }
}

/// Tokens of an input: training, held-out.
const COUNTS: [[i64; 2]; 3] = [[7, 2], [4, 0], [0, 3]];

impl Step {
    /// File of step `step` of two.
    fn new(step: u64) -> Step {
        let metadata = Metadata::from([
            ("general.type".to_owned(), Value::from("moments")),
            (key("version"), Value::U64(1)),
            (key("step"), Value::U64(step)),
            (key("n_steps"), Value::U64(2)),
            (key("model"), Value::from("100 bytes, SHA-256 ab")),
            (key("texts"), strings(["cd"])),
            (key("held_every"), Value::U64(8)),
            (key("with_output"), Value::Bool(false)),
            (key("activations"), Value::from("f32")),
            (key("matrix.tensor"), strings(MATRICES.map(|(tensor, ..)| tensor))),
            (key("matrix.part"), strings(MATRICES.map(|(_, part, _)| part))),
            (key("matrix.input"), numbers(MATRICES.map(|(.., input)| input))),
            (key("columns"), numbers(COLUMNS)),
        ]);
        let importance = importance(&format!("blk.{step}.attn_q.weight"));
        let counts = COUNTS.iter().flatten().flat_map(|count| count.to_le_bytes()).collect();
        let mut tensors = vec![
            ("importance".to_owned(), vec![importance.len() as u64], DType::I8, importance),
            ("counts".to_owned(), vec![2, 3], DType::I64, counts),
        ];
        for (input, n) in COLUMNS.iter().enumerate() {
            for (name, values) in ["fit", "held"].into_iter().zip(sums(input)) {
                tensors.push((format!("{name}.{input}"), vec![n * (n + 1) / 2], DType::F32, floats(&values)));
            }
        }
        Step { metadata, tensors, endian: Endian::Little }
    }

    fn bytes(&self) -> Vec<u8> {
        let shape = |dims: &[u64]| Shape::new(dims).unwrap();
        let planned = self.tensors.iter().map(|(name, dims, dtype, _)| (name.clone(), shape(dims), *dtype));
        let plan = Plan::new(&self.metadata, planned.collect(), self.endian, DEFAULT_ALIGNMENT).unwrap();
        plan.to_bytes(&self.tensors.iter().map(|(.., bytes)| bytes).collect::<Vec<_>>()).unwrap()
    }

    fn set(&mut self, name: &str, value: Value) {
        self.metadata.set(key(name), value);
    }

    fn tensor(&mut self, name: &str) -> &mut (String, Vec<u64>, DType, Vec<u8>) {
        self.tensors.iter_mut().find(|(tensor, ..)| tensor == name).unwrap()
    }
}

/// The part of an importance matrix: one tensor of two columns with the sums 6 and 0, of 3 rows.
fn importance(tensor: &str) -> Vec<u8> {
    let number = |n: u64| n.to_le_bytes().to_vec();
    [
        number(tensor.len() as u64),
        tensor.as_bytes().to_vec(),
        number(1),
        number(3),
        number(2),
        number(1),
        6f64.to_le_bytes().to_vec(),
        number(0),
    ]
    .concat()
}

/// Replaces a file instead of changing it: a mapped file must not change.
fn write(folder: &Path, name: &str, bytes: &[u8]) {
    let path = folder.join(name);
    let _ = fs::remove_file(&path);
    fs::write(path, bytes).unwrap();
}

fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for step in 0..2 {
        write(folder.path(), &format!("step-{step:05}.gguf"), &Step::new(step).bytes());
    }
    folder
}

fn read(folder: &Path) -> Result<MomentsCache, Error> {
    let cache = MomentsCache::read(folder)?;
    cache.importance()?;
    for (tensor, part, _) in MATRICES {
        let expert = part.strip_prefix("expert ").map(|of| usize::from(of.starts_with('1')));
        cache.gram(tensor, expert)?;
    }
    Ok(cache)
}

#[test]
fn handwritten_statistics_are_read() {
    let folder = folder();
    let cache = read(folder.path()).unwrap();
    assert!(cache.is_complete());
    for (tensor, expert, input) in [
        ("blk.0.attn_q.weight", None, 0),
        ("blk.0.attn_k.weight", None, 0),
        ("blk.0.ffn_down_exps.weight", Some(0), 1),
        ("blk.0.ffn_down_exps.weight", Some(1), 2),
    ] {
        let (fit, held) = cache.gram(tensor, expert).unwrap().unwrap();
        for ((gram, values), n_tokens) in [fit, held].iter().zip(sums(input)).zip(COUNTS[input]) {
            let n = COLUMNS[input] as usize;
            assert_eq!((gram.n_columns(), gram.n_tokens()), (n, n_tokens as u64), "{tensor}");
            let at = |row: usize, column: usize| {
                let (row, column) = (row.min(column), row.max(column));
                // Rows before have n, n - 1, .. values.
                values[row * n - row * (row + 1) / 2 + column]
            };
            let whole = (0..n * n).map(|index| at(index / n, index % n)).collect();
            assert_eq!(*gram, Gram::from_sums(n, n_tokens as u64, whole).unwrap(), "{tensor}");
        }
    }
    assert_eq!(cache.gram("blk.0.ffn_down_exps.weight", None).unwrap(), None);
    let importance = cache.importance().unwrap().sums(512).unwrap();
    assert_eq!(importance.entries.len(), 2);
    // One step is incomplete.
    fs::remove_file(folder.path().join("step-00000.gguf")).unwrap();
    assert!(!read(folder.path()).unwrap().is_complete());
}

/// Change to a file, and the expected message.
type Fault = (fn(&mut Step), &'static str);

const FAULTS: &[Fault] = &[
    (|step| step.set("version", Value::U64(2)), "belong to another version: expected 1, found 2"),
    (|step| step.set("version", Value::from("1")), "`gguf_tools.moments.version`"),
    (|step| step.set("step", Value::U64(2)), "step out of range"),
    (|step| step.set("step", Value::U64(u64::MAX)), "step out of range"),
    (|step| step.set("step", Value::U64(0)), "step 0 belongs to `step-00000.gguf`"),
    (|step| step.set("n_steps", Value::U64(3)), "belong to another number of steps: expected 2, found 3"),
    (
        |step| step.set("model", Value::from("x")),
        "belong to another model: expected 100 bytes, SHA-256 ab, found x",
    ),
    (|step| step.set("texts", strings(["cd", "ef"])), "belong to another text: expected cd, found cd + ef"),
    (
        |step| step.set("held_every", Value::U64(4)),
        "belong to another share of held-out chunks: expected 8, found 4",
    ),
    (
        |step| step.set("with_output", Value::Bool(true)),
        "belong to another treatment of the output matrix: expected false, found true",
    ),
    (
        |step| step.set("activations", Value::from("rounded")),
        "belong to another kind of activations: expected f32, found rounded",
    ),
    (|step| step.set("texts", Value::U64(1)), "`gguf_tools.moments.texts`"),
    (
        |step| step.set("texts", Value::Array(Array::String([&b"\xff"[..]].into_iter().collect()))),
        "a name is not UTF-8",
    ),
    (|step| step.set("columns", numbers([3, 2])), "a matrix has no input"),
    (
        |step| step.set("columns", Value::Array(Array::U32(vec![3, 2, 2]))),
        "`gguf_tools.moments.columns` is not a list of numbers",
    ),
    (|step| step.set("columns", numbers([4, 2, 2])), "tensor `fit.0` has an unexpected type or shape"),
    (|step| step.set("columns", numbers([u64::MAX, 2, 2])), "tensor `fit.0` has an unexpected type or shape"),
    (|step| step.set("columns", numbers([3, 2, 2, 2])), "missing tensor `fit.3`"),
    (
        |step| step.set("matrix.tensor", strings(["blk.0.attn_q.weight"])),
        "lists of matrices differ in length",
    ),
    (|step| step.set("matrix.part", strings(["whole"; 3])), "lists of matrices differ in length"),
    (|step| step.set("matrix.input", numbers([0; 5])), "lists of matrices differ in length"),
    (|step| step.set("matrix.input", numbers([0, 0, 1, 3])), "a matrix has no input"),
    (|step| step.set("matrix.input", numbers([0, 0, 1, u64::MAX])), "a matrix has no input"),
    (
        |step| step.set("matrix.part", strings(["whole", "whole", "expert 0/2", "expert 2/2"])),
        "unknown kind of matrix part",
    ),
    (
        |step| step.set("matrix.part", strings(["whole", "whole", "expert 1/2", "expert 1/2"])),
        "duplicate matrix",
    ),
    (|step| step.tensor("held.1").0 = "held.9".to_owned(), "missing tensor `held.1`"),
    (|step| step.tensor("fit.2").2 = DType::I32, "tensor `fit.2` has an unexpected type or shape"),
    (
        |step| {
            let tensor = step.tensor("fit.2");
            (tensor.1, tensor.3) = (vec![4], floats(&[0.0; 4]));
        },
        "tensor `fit.2` has an unexpected type or shape",
    ),
    (|step| step.tensor("counts").0 = "count".to_owned(), "expected two counts per input"),
    (|step| step.tensor("counts").2 = DType::F64, "expected two counts per input"),
    (
        |step| {
            let tensor = step.tensor("counts");
            (tensor.1, tensor.3) = (vec![2, 2], vec![0; 32]);
        },
        "expected two counts per input",
    ),
    (|step| step.tensor("counts").3[..8].fill(0xff), "negative count"),
    (|step| step.tensor("fit.1").3 = floats(&[1.0, f32::NAN, 1.0]), "tensor `fit.1` has non-finite values"),
    (|step| step.tensor("held.2").3 = floats(&[f32::INFINITY; 3]), "tensor `held.2` has non-finite values"),
    (
        |step| {
            let tensor = step.tensor("importance");
            (tensor.1, tensor.2, tensor.3) = (vec![1], DType::F32, floats(&[1.0]));
        },
        "tensor `importance` is not i8",
    ),
    (|step| step.tensor("importance").3[..8].fill(0xff), "unexpected end inside a tensor"),
    (|step| step.tensor("importance").3[8] = 0xff, "a name is not valid UTF-8"),
];

/// Checks that the folder is refused with the name of its second file and these words.
#[track_caller]
fn refused(folder: &Path, message: &str) {
    let Err(error) = read(folder) else { panic!("accepted: {message}") };
    let (text, path) = (error.to_string(), folder.join("step-00001.gguf").display().to_string());
    assert!(text.contains(message) && text.contains(&path), "`{message}` of {path}, found: {text}");
}

#[test]
fn every_fault_is_named_with_its_file() {
    let folder = folder();
    for (change, message) in FAULTS {
        let mut step = Step::new(1);
        change(&mut step);
        write(folder.path(), "step-00001.gguf", &step.bytes());
        refused(folder.path(), message);
    }
    for name in [
        "version",
        "step",
        "n_steps",
        "model",
        "texts",
        "held_every",
        "activations",
        "columns",
        "matrix.tensor",
    ] {
        let mut step = Step::new(1);
        step.metadata.remove(&key(name));
        write(folder.path(), "step-00001.gguf", &step.bytes());
        refused(folder.path(), &format!("`{}`", key(name)));
    }
}

#[test]
fn foreign_and_partial_files_are_named() {
    let folder = folder();
    let whole = Step::new(1).bytes();
    for (bytes, message) in [(&b""[..], "are invalid"), (b"not one", "are invalid")] {
        write(folder.path(), "step-00001.gguf", bytes);
        refused(folder.path(), message);
    }
    // The last tensor is in the last quarter.
    for end in [10, whole.len() / 4, whole.len() / 2, whole.len() * 3 / 4] {
        write(folder.path(), "step-00001.gguf", &whole[..end]);
        refused(folder.path(), "are invalid");
    }
    let mut big = Step::new(1);
    big.endian = Endian::Big;
    write(folder.path(), "step-00001.gguf", &big.bytes());
    refused(folder.path(), "unexpected byte order (big-endian)");
    // A folder with the name of a file.
    fs::remove_file(folder.path().join("step-00001.gguf")).unwrap();
    fs::create_dir(folder.path().join("step-00001.gguf")).unwrap();
    let Err(error) = read(folder.path()) else { panic!("a folder is no file") };
    assert!(error.to_string().contains("step-00001.gguf"), "{error}");

    let nothing = tempfile::tempdir().unwrap();
    let error = read(nothing.path()).unwrap_err();
    assert!(matches!(&error, Error::NotAddable { .. }) && error.to_string().contains("no statistics in"));
    assert!(matches!(read(&nothing.path().join("none")), Err(Error::Io { .. })));
    // Other files in the folder are ignored.
    write(folder.path(), "step-1.txt", b"x");
    fs::remove_dir(folder.path().join("step-00001.gguf")).unwrap();
    write(folder.path(), "step-00001.gguf", &whole);
    assert!(read(folder.path()).is_ok());
}

#[test]
fn mutated_files_are_refused_or_read() {
    let folder = folder();
    let whole = Step::new(1).bytes();
    let file = File::parse(whole.clone()).unwrap();
    gguf_testkit::mutants(400, |draw| {
        let mut bytes = whole.clone();
        match draw.below(3) {
            0 => gguf_testkit::mutate(&mut bytes, draw),
            _ => bytes = gguf_testkit::mutated_gguf(&file, draw).unwrap_or(bytes),
        }
        write(folder.path(), "step-00001.gguf", &bytes);
        match read(folder.path()) {
            Ok(_) => true,
            Err(error) => {
                assert!(error.to_string().contains("step-00001.gguf"), "{error}");
                false
            }
        }
    });
}
