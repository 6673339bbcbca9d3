//! Tiny checkpoints, converted and run, against what transformers predicts with them.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use std::fs;

use common::{Place, golden};
use eval::{Model, Options, Window};

/// The largest difference that is allowed, as a part of the range of the logits.
const ALLOWED: f32 = 2e-4;

/// Checkpoints with which the file, by what the reference writes and reads, means something else than
/// transformers does, and why.
const DIFFERENT: &[(&str, &str)] = &[
    (
        "glm",
        "the reference writes no key_length, and these heads are wider than the embedding by their number",
    ),
    ("nemotron-old", "the reference counts the turning elements from the embedding, not from head_dim"),
    (
        "phi2",
        "the reference writes four times the embedding as feed_forward_length, whatever the config says",
    ),
    ("phi2-old", "as phi2"),
];

/// What `golden/logits/NAME.bin` holds.
struct Expected {
    tokens: Vec<u32>,
    positions: Vec<usize>,
    n_vocab: usize,
    range: f32,
    /// (positions, n_vocab).
    logits: Vec<f32>,
}

fn expected(name: &str) -> Expected {
    let bytes = fs::read(golden("logits").join(format!("{name}.bin"))).unwrap();
    let end = bytes.iter().position(|byte| *byte == b'\n').unwrap();
    let head: serde_json::Value = serde_json::from_slice(&bytes[..end]).unwrap();
    let list = |key: &str| -> Vec<u64> {
        head[key].as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).collect()
    };
    let logits = bytes[end + 1..].chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap()));
    Expected {
        tokens: list("tokens").into_iter().map(|id| id as u32).collect(),
        positions: list("positions").into_iter().map(|p| p as usize).collect(),
        n_vocab: head["n_vocab"].as_u64().unwrap() as usize,
        range: head["range"].as_f64().unwrap() as f32,
        logits: logits.collect(),
    }
}

/// The largest difference as a part of the range, or what went wrong.
fn difference(name: &str) -> Result<f32, String> {
    let place = Place::with_golden(name);
    let ran = place.convert(&[name, "x.gguf", "-t", "f32", "-q"]);
    if ran.code != Some(0) {
        return Err(format!("not converted: {}", ran.stderr));
    }
    let options = Options { threads: Some(1) };
    let model = Model::open(&place.path("x.gguf"), &options).map_err(|error| error.to_string())?;
    let expected = expected(name);
    let hidden = model.run(&[Window::new(&expected.tokens)], None).map_err(|error| error.to_string())?;
    let mut logits = vec![0.0; hidden.n_rows() * model.n_vocab()];
    model.logits(&hidden, 0..hidden.n_rows(), None, &mut logits).map_err(|error| error.to_string())?;
    // The converter may pad or cut the vocabulary; the tokens that both have are compared.
    let n = expected.n_vocab.min(model.n_vocab());
    let mut worst = 0.0f32;
    for (i, position) in expected.positions.iter().enumerate() {
        let want = &expected.logits[i * expected.n_vocab..][..n];
        let have = &logits[position * model.n_vocab()..][..n];
        for (want, have) in want.iter().zip(have) {
            let difference = (want - have).abs();
            worst = if difference.is_nan() { f32::INFINITY } else { worst.max(difference) };
        }
    }
    Ok(worst / expected.range)
}

#[test]
fn tiny_checkpoints_predict_as_in_transformers() {
    let mut names: Vec<String> = fs::read_dir(golden("logits"))
        .unwrap()
        .map(|entry| entry.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    names.sort();
    assert!(!names.is_empty());
    let wanted = std::env::var("LOGITS").unwrap_or_default();
    let mut problems = Vec::new();
    for name in names.iter().filter(|name| name.contains(&wanted)) {
        let is_different = DIFFERENT.iter().any(|(different, _)| different == name);
        match difference(name) {
            Ok(part) if (part <= ALLOWED) != is_different => {}
            Err(_) if is_different => {}
            Ok(part) => problems.push(format!("{name}: {part:.1e} of the range")),
            Err(error) => problems.push(format!("{name}: {error}")),
        }
    }
    assert!(problems.is_empty(), "{} of {}:\n{}", problems.len(), names.len(), problems.join("\n"));
}
