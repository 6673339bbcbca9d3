//! Files from before GGUF in parts, and models of many families, with something changed at random: each is read or refused, and
//! nothing panics. Every reader alone has a target in `crates/fuzzing`.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use std::{
    fs,
    path::{Path, PathBuf},
};

use arch::LegacyOptions;
use common::{Sandbox, golden};
use convert::{Input as _, LegacyInput, Request};
use eval::{
    Model, Sequence,
    vision::{Picture, Projector},
};
use gguf::{Array, Endian, Metadata, Plan, Value};
use quant::Level;
use testkit::{Draw, NASTY, mutants, mutate};

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

fn read(paths: &[PathBuf]) -> Vec<Vec<u8>> {
    paths.iter().map(|path| fs::read(path).unwrap()).collect()
}

#[test]
fn mutated_files_from_before_gguf() {
    let one_file =
        |path: &PathBuf| path.extension().is_some_and(|it| it == "bin") && !path.ends_with("ggml-parts.bin");
    let paths: Vec<PathBuf> = files(&golden("ggml")).into_iter().filter(one_file).collect();
    let parts = read(&[golden("ggml/ggml-parts.bin"), golden("ggml/ggml-parts.bin.1")]);
    let good = read(&paths);
    mutants(2000, |draw| {
        let mut files = match draw.below(good.len() + 1) {
            0 => parts.clone(),
            at => vec![good[at - 1].clone()],
        };
        let at = draw.below(files.len());
        mutate(&mut files[at], draw);
        let len: usize = files.iter().map(Vec::len).sum();
        let files =
            files.into_iter().enumerate().map(|(index, bytes)| (format!("x.{index}"), bytes)).collect();
        let Ok(model) = source::parse_legacy(files) else { return false };
        // Nothing is allocated by what a header says.
        let held = model.tokens.held_bytes() + 4 * model.scores.capacity() + 256 * model.tensors.len();
        assert!(held <= 16 * len, "{held} bytes of a file of {len}");
        let Ok(input) = LegacyInput::new(model, &LegacyOptions::default(), None) else { return false };
        let tasks = input.tasks(&Request::default()).unwrap();
        for task in &tasks {
            let view = task.rows.view();
            let mut values = vec![0.0; (view.n_rows * view.row_elems) as usize];
            task.rows.read(0..view.n_rows, Level::Scalar, &mut values).unwrap();
            assert!(values.len() <= 8 * len, "{} elements of a file of {len} bytes", values.len());
        }
        true
    });
}

/// A key changed, taken away or of another type.
fn mutate_metadata(metadata: &mut Metadata, draw: &mut Draw) {
    let at = draw.below(metadata.len());
    let Some((key, value)) = metadata.iter_mut().nth(at) else { return };
    let key = key.to_owned();
    let nasty = *draw.of(&NASTY);
    match draw.below(8) {
        0 => drop(metadata.remove(&key)),
        1 => *value = Value::U32(nasty as u32),
        2 => *value = Value::F32([0.0, -1.0, f32::NAN, f32::INFINITY, 1e-30][draw.below(5)]),
        3 => *value = Value::from(["", "llama", "yarn", "gpt2", "none"][draw.below(5)]),
        4 => *value = Value::Array(Array::U32(vec![nasty as u32; draw.below(4)])),
        _ => match value {
            Value::U32(number) if draw.below(2) == 0 => *number = draw.below(40) as u32,
            Value::U32(number) => *number = nasty as u32,
            Value::I32(number) => *number = nasty as i32,
            Value::U64(number) => *number = nasty,
            Value::F32(number) => *number *= -1e20,
            Value::Bool(is) => *is = !*is,
            Value::String(text) => mutate(text, draw),
            Value::Array(Array::String(items)) if !items.is_empty() => {
                let mut texts = items.to_vecs();
                let at = draw.below(texts.len());
                mutate(&mut texts[at], draw);
                *items = texts.into();
            }
            Value::Array(Array::I32(items)) if !items.is_empty() => {
                let at = draw.below(items.len());
                items[at] = nasty as i32;
            }
            Value::Array(Array::F32(items)) if !items.is_empty() => {
                let at = draw.below(items.len());
                items[at] = f32::NAN;
            }
            _ => drop(metadata.remove(&key)),
        },
    }
}

/// Families whose maths differ, of `golden/arch`.
const FAMILIES: [&str; 16] = [
    "bert",
    "bloom",
    "chatglm",
    "dbrx",
    "deepseek2",
    "falcon-h1",
    "gemma3",
    "gpt-oss",
    "lfm2",
    "llama4",
    "mamba2",
    "modern-bert",
    "qwen3next",
    "rwkv6",
    "rwkv7",
    "t5",
];

#[test]
fn mutated_models() {
    let sandbox = Sandbox::new();
    let mut paths: Vec<PathBuf> =
        testkit::logits_file_names().iter().map(|name| testkit::logits_file(name)).collect();
    for name in FAMILIES {
        let folder = testkit::checkpoint(name);
        let to = format!("{name}.gguf");
        let ran = sandbox.convert(&[folder.to_str().unwrap(), &to, "-t", "f32", "-q"]);
        assert_eq!(ran.code, Some(0), "{name}: {}", ran.stderr);
        paths.push(sandbox.path(&to));
    }
    let good: Vec<gguf::File> = paths.iter().map(|path| gguf::File::open(path).unwrap()).collect();
    let path = sandbox.path("mutant.gguf");
    mutants(1000, |draw| {
        if !write_mutant(draw.of(&good), draw, &path) {
            return false;
        }
        let options = eval::Options { threads: Some(1), ..eval::Options::default() };
        let Ok(model) = Model::open(&path, &options) else { return false };
        let _may_be_unknown = model.tokenizer().encode("a text", true, true);
        let Ok(hidden) = model.run(&[Sequence::new(&[1, 5, 2, 7, 3])], None) else { return false };
        let mut logits = vec![0.0; hidden.n_rows() * model.n_vocab()];
        model.logits(&hidden, 0..hidden.n_rows(), None, &mut logits).is_ok()
    });
}

/// A file with up to three keys changed; whether it could be written.
fn write_mutant(file: &gguf::File, draw: &mut Draw, path: &Path) -> bool {
    let mut metadata = file.metadata().clone();
    for _ in 0..=draw.below(2) {
        mutate_metadata(&mut metadata, draw);
    }
    let tensors = file.tensors().iter().map(|t| (t.name.clone(), t.shape, t.dtype)).collect();
    let data: Vec<&[u8]> = file.tensors().iter().map(|t| file.data(t).unwrap()).collect();
    let Ok(plan) = Plan::new(&metadata, tensors, Endian::Little, 32) else { return false };
    fs::write(path, plan.to_bytes(&data).unwrap()).unwrap();
    true
}

#[test]
fn mutated_projectors() {
    let sandbox = Sandbox::new();
    let path = |name: &str| sandbox.path(&format!("{name}.gguf"));
    let convert = |name: &String| {
        let (folder, to) = (testkit::vision(name), path(name));
        let args = [folder.to_str().unwrap(), to.to_str().unwrap(), "--mmproj", "-t", "f32", "-q"];
        let ran = sandbox.convert(&args);
        assert_eq!(ran.code, Some(0), "{name}: {}", ran.stderr);
        gguf::File::open(&to).unwrap()
    };
    let good: Vec<gguf::File> = testkit::vision_names().iter().map(convert).collect();
    let picture = Picture::read(&fs::read(golden("vision/picture.png")).unwrap()).unwrap();
    let path = path("mutant");
    mutants(600, |draw| {
        if !write_mutant(draw.of(&good), draw, &path) {
            return false;
        }
        let options = eval::Options { threads: Some(1), ..eval::Options::default() };
        let Ok(projector) = Projector::open(&path, &options) else { return false };
        projector.embed(&picture, Some(16)).is_ok()
    });
}
