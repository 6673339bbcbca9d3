//! Logits with adapters, applied while a model runs and merged into its file, compared with those of libllama.

use std::{fs, path::PathBuf};

use super::logits::read_values;
use crate::common::{Sandbox, copy_folder, golden, largest_difference, succeed};
use gguf_runtime::{Model, Options, Sequence, Session};

/// The largest difference that is allowed, as a part of the range of the logits.
const ALLOWED: f32 = 2e-4;

/// Contents of `golden/lora-logits/NAME.bin`.
struct Expected {
    base: String,
    /// Name, type and scale.
    adapters: Vec<(String, String, f32)>,
    tokens: Vec<u32>,
    positions: Vec<usize>,
    range: f32,
    /// (positions, n_vocab).
    rows: Vec<f32>,
}

fn expected(name: &str) -> Expected {
    let (head, rows) = read_values(&golden("lora-logits").join(name));
    let numbers = |key: &str| head[key].as_array().unwrap().iter().map(|n| n.as_u64().unwrap());
    let adapter = |adapter: &serde_json::Value| {
        let text = |i: usize| adapter[i].as_str().unwrap().to_owned();
        (text(0), text(1), adapter[2].as_f64().unwrap() as f32)
    };
    Expected {
        base: head["base"].as_str().unwrap().to_owned(),
        adapters: head["adapters"].as_array().unwrap().iter().map(adapter).collect(),
        tokens: numbers("tokens").map(|id| id as u32).collect(),
        positions: numbers("positions").map(|position| position as usize).collect(),
        range: head["range"].as_f64().unwrap() as f32,
        rows,
    }
}

fn open(path: PathBuf, adapters: Vec<(PathBuf, f32)>) -> Model {
    let options = Options { threads: Some(1), adapters, ..Options::new(gguf_models::GRAPHS) };
    Model::open(&path, &options).unwrap()
}

/// Logits of all tokens: (n_tokens, n_vocab).
fn logits(model: &Model, tokens: &[u32]) -> Vec<f32> {
    let hidden = model.run(&[Sequence::new(tokens)], None).unwrap();
    let mut rows = vec![0.0; hidden.n_rows() * model.n_vocab()];
    model.logits(&hidden, 0..hidden.n_rows(), None, &mut rows).unwrap();
    rows
}

/// The largest difference from the golden, as a part of its range.
fn difference(expected: &Expected, rows: &[f32]) -> f32 {
    let n_vocab = expected.rows.len() / expected.positions.len();
    let of = |(i, position): (usize, &usize)| {
        largest_difference(&expected.rows[i * n_vocab..][..n_vocab], &rows[position * n_vocab..][..n_vocab])
    };
    expected.positions.iter().enumerate().map(of).fold(0.0, f32::max) / expected.range
}

#[test]
fn adapters_predict_as_in_libllama() {
    let names = fs::read_dir(golden("lora-logits")).unwrap();
    let mut names: Vec<String> = names.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    assert!(names.len() >= 4, "{names:?}");
    for name in names {
        let expected = expected(&name);
        let sandbox = Sandbox::with_converted(&expected.base, "x.gguf", "f32");
        let mut adapters = Vec::new();
        let mut merge = vec!["x.gguf".to_owned(), "merged.gguf".to_owned(), "f32".to_owned()];
        for (adapter, file_type, scale) in &expected.adapters {
            let file = format!("{adapter}.gguf");
            if !sandbox.path(adapter).exists() {
                copy_folder(&golden("lora").join(adapter), &sandbox.path(adapter));
                let args = ["adapter", adapter, &file, "--base", &expected.base, "-t", file_type, "-q"];
                succeed(sandbox.convert(&args));
            }
            merge.extend(["--lora".to_owned(), format!("{file}={scale}")]);
            adapters.push((sandbox.path(&file), *scale));
        }
        let plain =
            difference(&expected, &logits(&open(sandbox.path("x.gguf"), Vec::new()), &expected.tokens));
        let model = open(sandbox.path("x.gguf"), adapters);
        let rows = logits(&model, &expected.tokens);
        let at_once = difference(&expected, &rows);
        succeed(sandbox.quantize(&merge.iter().map(String::as_str).collect::<Vec<_>>()));
        let merged = open(sandbox.path("merged.gguf"), Vec::new());
        let merged = difference(&expected, &logits(&merged, &expected.tokens));
        println!("{name}: {at_once:e}, merged {merged:e}, without adapters {plain:e}");
        assert!(at_once < ALLOWED && merged < ALLOWED && plain > 0.1, "{name}");
        // Token by token.
        let mut session = Session::new();
        let mut one_by_one = vec![0.0; rows.len()];
        for (token, out) in expected.tokens.iter().zip(one_by_one.chunks_mut(model.n_vocab())) {
            let hidden = model.continue_with(&mut session, &[*token]).unwrap();
            model.logits(&hidden, 0..1, None, out).unwrap();
        }
        assert!(difference(&expected, &one_by_one) < ALLOWED, "{name}");
    }
}
