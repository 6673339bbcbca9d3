//! `gguf-eval perplexity` on tiny models, compared with llama-perplexity (`golden/eval-cli/perplexity.txt`,
//! made by `scripts/golden/eval_cli.sh`).

use std::fs;

use crate::common::{Sandbox, golden, succeed};
use serde_json::Value;

/// A line of the golden.
struct Row {
    model: String,
    dtype: String,
    context: String,
    stride: String,
    /// Values after 1, 2, .. chunks; or the final value and its error.
    figures: Result<Vec<f64>, (f64, f64)>,
}

fn rows() -> Vec<Row> {
    let text = fs::read_to_string(golden("eval-cli").join("perplexity.txt")).unwrap();
    let row = |line: &str| {
        let (what, figures) = line.split_once(": ").unwrap();
        let [model, dtype, context, stride, windows] =
            what.split_whitespace().map(str::to_owned).collect::<Vec<_>>().try_into().unwrap();
        let number = |text: &str| text.trim().parse::<f64>().unwrap();
        let figures = match figures.split_once("+/-") {
            Some((value, error)) => Err((number(value), number(error))),
            None => Ok(figures.split_whitespace().map(number).collect::<Vec<_>>()),
        };
        if let Ok(figures) = &figures {
            assert_eq!(figures.len(), windows.parse::<usize>().unwrap(), "{line}");
        }
        Row { model, dtype, context, stride, figures }
    };
    text.lines().filter(|line| !line.starts_with('#')).map(row).collect()
}

/// The model at f32 and at the other types, and the text.
fn sandbox(model: &str, dtypes: &[&str]) -> Sandbox {
    let sandbox = Sandbox::with_golden(model);
    succeed(sandbox.convert(&[model, "f32.gguf", "--type", "f32", "--quiet"]));
    for dtype in dtypes {
        let args = ["--pure", "f32.gguf", &format!("{dtype}.gguf"), dtype, "--quiet"];
        succeed(sandbox.quantize(&args));
    }
    sandbox.add_text();
    sandbox
}

fn measure(sandbox: &Sandbox, row: &Row, windows: Option<usize>, more: &[&str]) -> Value {
    let (file, windows) = (format!("{}.gguf", row.dtype), windows.map(|n| n.to_string()));
    let mut args = vec!["perplexity", &file, "--text", "text", "-c", &row.context, "--json", "-q"];
    if row.stride != "0" {
        args.extend(["--stride", &row.stride]);
    }
    args.extend(windows.iter().flat_map(|n| ["--chunks", n]));
    args.extend(more);
    let ran = succeed(sandbox.eval(&args));
    ran.json()
}

fn near(found: &Value, expected: f64, what: &str) {
    let found = found.as_f64().unwrap();
    assert!((found / expected - 1.0).abs() < 5e-5, "{what}: {found}, {expected}");
}

#[test]
fn perplexity_matches_reference() {
    let mut n_rows = 0;
    for model in ["llama", "gemma3"] {
        let sandbox = sandbox(model, &[]);
        for row in rows().iter().filter(|row| row.model == model && row.dtype == "f32") {
            let what = format!("{model}, {} tokens, stride {}", row.context, row.stride);
            match &row.figures {
                Ok(figures) => {
                    for (n, expected) in (1..).zip(figures) {
                        let found = measure(&sandbox, row, Some(n), &[]);
                        assert_eq!((&found["chunks"], &found["activations"]), (&n.into(), &"f32".into()));
                        near(&found["perplexity"], *expected, &format!("{what}, {n} windows"));
                    }
                }
                Err((value, error)) => {
                    let found = measure(&sandbox, row, None, &[]);
                    near(&found["perplexity"], *value, &what);
                    near(&found["perplexity_error"], *error, &what);
                }
            }
            n_rows += 1;
        }
    }
    assert_eq!(n_rows, 7);
}

/// Rounding is chaotic in its last digits, so that no figure is the same; but in the mean they are nearer by far.
#[test]
fn rounded_activations_are_closer_to_reference() {
    let dtypes = ["f16", "bf16", "q8_0"];
    let sandbox = sandbox("llama", &dtypes);
    let mut n_rows = 0;
    for row in rows().iter().filter(|row| dtypes.contains(&row.dtype.as_str())) {
        let distance = |activations: &str| -> f64 {
            let figures = (1..).zip(row.figures.as_ref().unwrap());
            let distances = figures.map(|(n, expected)| {
                let found = measure(&sandbox, row, Some(n), &["--activations", activations]);
                assert_eq!(found["activations"], activations);
                (found["perplexity"].as_f64().unwrap() / expected).ln().abs()
            });
            distances.sum()
        };
        let (rounded, plain) = (distance("rounded"), distance("f32"));
        assert!(rounded < 0.5 * plain, "{}: {rounded} rounded, {plain} in f32", row.dtype);
        n_rows += 1;
    }
    assert_eq!(n_rows, dtypes.len());
}
