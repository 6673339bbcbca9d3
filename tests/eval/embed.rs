//! `gguf-eval embed` on tiny encoders, compared with transformers on the same texts (`golden/embed/`, made by
//! `scripts/golden/embed.py`).

use std::fs;

use crate::common::{Output, Sandbox, golden, succeed, words};
use gguf_imatrix::Sums;
use serde_json::Value;

fn sandbox(name: &str) -> Sandbox {
    let sandbox = Sandbox::with_golden(name);
    succeed(sandbox.convert(&[name, "x.gguf", "--type", "f32", "--quiet"]));
    sandbox
}

fn texts(name: &str) -> Vec<Value> {
    let json = fs::read_to_string(golden("embed").join(format!("{name}.json"))).unwrap();
    serde_json::from_str::<Value>(&json).unwrap().as_array().unwrap().clone()
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect()
}

fn near(found: &[f64], expected: &[f64], what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    let worst = found.iter().zip(expected).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    let range = expected.iter().fold(0.0, |range: f64, x| range.max(x.abs()));
    assert!(worst <= 2e-4 * range, "{what}: {worst} of {range}");
}

/// Lines of numbers.
fn rows(stdout: &str) -> Vec<Vec<f64>> {
    stdout.lines().map(|line| line.split(' ').map(|x| x.parse().unwrap()).collect()).collect()
}

#[test]
fn vectors_match_transformers() {
    let sandbox = sandbox("bert");
    let expected = texts("bert");
    let lines: Vec<&str> = expected.iter().map(|text| text["text"].as_str().unwrap()).collect();
    sandbox.write("lines", lines.join("\n"));
    // The file says that the mean is wanted.
    for (args, way) in
        [(&[][..], "mean"), (&["--pooling", "cls"][..], "cls"), (&["--pooling", "last"][..], "last")]
    {
        let ran = succeed(sandbox.eval(&[&["embed", "x.gguf", "--text", "lines"], args].concat()));
        let found = rows(&ran.stdout);
        assert_eq!((found.len(), ran.stderr.as_str()), (expected.len(), ""), "{way}");
        for (found, text) in found.iter().zip(&expected) {
            near(found, &numbers(&text[way]), way);
        }
    }
    let all = succeed(sandbox.eval(&["embed", "x.gguf", "--prompt", lines[0], "--pooling", "none"]));
    let all = rows(&all.stdout);
    assert_eq!(all.len(), expected[0]["ids"].as_array().unwrap().len());
    near(&all[0], &numbers(&expected[0]["cls"]), "first row");
    near(&all[all.len() - 1], &numbers(&expected[0]["last"]), "last row");
}

#[test]
fn normalized_vectors_print_as_json() {
    let sandbox = sandbox("bert");
    let expected = &texts("bert")[1];
    let args = ["embed", "x.gguf", "--prompt", expected["text"].as_str().unwrap(), "--normalize", "--json"];
    let report: Value = serde_json::from_str(&succeed(sandbox.eval(&args)).stdout).unwrap();
    assert_eq!((&report["pooling"], &report["architecture"]), (&"mean".into(), &"bert".into()));
    let text = &report["texts"][0];
    assert_eq!(text["tokens"], expected["ids"].as_array().unwrap().len());
    let mut vector = numbers(&expected["mean"]);
    let length = vector.iter().map(|x| x * x).sum::<f64>().sqrt();
    vector.iter_mut().for_each(|x| *x /= length);
    near(&numbers(&text["vector"]), &vector, "normalized");
}

#[test]
fn rankers_score_pairs() {
    let sandbox = sandbox("bert-classifier");
    for pair in texts("bert-classifier") {
        let args = ["embed", "x.gguf", "--prompt", pair["text"].as_str().unwrap(), "--json"];
        let report: Value = serde_json::from_str(&succeed(sandbox.eval(&args)).stdout).unwrap();
        let text = &report["texts"][0];
        assert_eq!(text["tokens"], pair["ids"].as_array().unwrap().len());
        assert_eq!(text["labels"], serde_json::json!(["bad", "so-so", "good"]));
        near(&numbers(&text["scores"]), &numbers(&pair["scores"]), "scores");
    }
}

/// All long lines are named before any text runs, and cut on request.
#[test]
fn long_lines_are_named_or_cut() {
    let sandbox = sandbox("bert");
    let limit = sandbox.file("x.gguf").tensor("position_embd.weight").unwrap().shape.dim(1) as usize;
    let long = "one two three ".repeat(limit);
    sandbox.write("lines", format!("one\n{long}\ntwo\n{long}\n"));
    let call = ["embed", "x.gguf", "--text", "lines", "--prompt", "three"];
    let ran = sandbox.eval(&call);
    ran.ends_and_says(
        1,
        &format!("expected at most {limit} tokens (positions of the model): lines: line 2 ("),
    );
    assert!(ran.stderr.contains("lines: line 4 (") && ran.stdout.is_empty(), "{}", ran.stderr);
    let ran = succeed(sandbox.eval(&[&call[..], &["--truncate"]].concat()));
    ran.says("warning: lines: line 2 (");
    ran.says(&format!("tokens): cut to {limit} tokens"));
    let found = rows(&ran.stdout);
    assert_eq!(found.len(), 5);
    near(&found[2], &found[4], "the same text is cut alike");
    // The last token stays: the vector is that of the text with as many tokens as fit.
    let letters = |n: usize| "a ".repeat(n);
    sandbox.write("letters", letters(limit));
    let cut = succeed(sandbox.eval(&["embed", "x.gguf", "--text", "letters", "--truncate"]));
    let embed = |n: usize| {
        let ran = sandbox.eval(&["embed", "x.gguf", "--prompt", &letters(n), "--json"]);
        (ran.code == Some(0)).then(|| ran.json()["texts"][0].clone())
    };
    let fitting = (1..limit).rev().find_map(embed).unwrap();
    assert_eq!(fitting["tokens"], limit);
    near(&rows(&cut.stdout)[0], &numbers(&fitting["vector"]), "cut");
}

#[test]
fn unsupported_embeddings_are_refused_with_advice() {
    let sandbox = sandbox("distilbert-mlm-old");
    sandbox.write("text", "one two three ".repeat(40));
    let refused = |ran: Output, problem: &str, hint: &str| {
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""), "{}", ran.stderr);
        assert!(ran.stderr.contains(problem) && ran.stderr.contains(hint), "{}", ran.stderr);
    };
    refused(
        sandbox.eval(&["embed", "x.gguf", "--prompt", "x"]),
        "missing metadata key `bert.pooling_type`",
        "set --pooling to mean",
    );
    let args = ["embed", "x.gguf", "--prompt", "x", "--pooling", "rank"];
    refused(sandbox.eval(&args), "`cls.output.weight`", "");
    let args = ["embed", "x.gguf", "--text", "text", "--pooling", "mean"];
    refused(
        sandbox.eval(&args),
        "expected at most 32 tokens (positions of the model): text: line 1 (",
        "split these texts",
    );
    let args = ["perplexity", "x.gguf", "--text", "text", "--context", "16"];
    refused(sandbox.eval(&args), "does not predict tokens", "use `gguf-eval embed` for encoders");
    refused(
        sandbox.eval(&["generate", "x.gguf", "--prompt", "x"]),
        "does not predict tokens",
        "`gguf-eval embed`",
    );
}

#[test]
fn impossible_layer_counts_allocate_nothing() {
    let sandbox = sandbox("bert");
    let mut bytes = sandbox.read("x.gguf");
    let key = b"bert.block_count";
    let at = bytes.windows(key.len()).position(|window| window == key).unwrap() + key.len() + 4;
    bytes[at..at + 4].copy_from_slice(&u32::MAX.to_le_bytes());
    sandbox.write("y.gguf", bytes);
    let ran = sandbox.eval(&["embed", "y.gguf", "--prompt", "x"]);
    ran.ends_and_says(1, "`bert.block_count`: expected at most");
}

#[test]
fn importance_matrices_of_encoders_cover_every_layer() {
    let sandbox = sandbox("bert");
    sandbox.write("text", "A llama is an animal of the quick brown fox. ".repeat(20));
    let args = ["imatrix", "x.gguf", "--text", "text", "--context", "16", "-o", "im.gguf", "-q"];
    assert_eq!(succeed(sandbox.eval(&args)).stderr, "");
    let sums = Sums::open(&sandbox.path("im.gguf")).unwrap();
    for layer in 0..2 {
        for part in ["attn_q", "attn_k", "attn_v", "attn_output", "ffn_up", "ffn_down"] {
            let entry = &sums.entries[&format!("blk.{layer}.{part}.weight")];
            assert!(entry.sums.iter().all(|sum| *sum > 0.0), "{part}");
        }
    }
    assert_eq!(sums.entries.len(), 12);
}

#[test]
fn encoder_decoder_models_generate() {
    let sandbox = sandbox("t5");
    let ran = succeed(sandbox.eval(&["generate", "x.gguf", "--prompt", "a llama", "-n", "4"]));
    ran.says("4 tokens after");
    sandbox.write("text", "A llama is an animal. ".repeat(40));
    // Both sides of the model, and what lies between them.
    let args = ["imatrix", "x.gguf", "--text", "text", "--context", "16", "-o", "im.gguf", "-q"];
    assert_eq!(succeed(sandbox.eval(&args)).stderr, "");
    let sums = Sums::open(&sandbox.path("im.gguf")).unwrap();
    assert!(sums.entries.contains_key("enc.blk.1.ffn_down.weight"));
    assert!(sums.entries.contains_key("dec.blk.1.cross_attn_k.weight"));
    assert_eq!(sums.entries.len(), 2 * 6 + 2 * 10);
    let ran = sandbox.eval(&words("perplexity x.gguf --text text --context 16"));
    assert!(
        ran.stderr.contains("does not predict the next token") && ran.stderr.contains("generate"),
        "{}",
        ran.stderr
    );
    let ran = sandbox.eval(&words("embed x.gguf --prompt x --pooling mean"));
    assert!(ran.code == Some(1) && ran.stderr.contains("cannot compute text embeddings"), "{}", ran.stderr);
}

#[test]
fn audio_models_are_refused_with_reason() {
    let sandbox = sandbox("whisper");
    sandbox.write("text", "A llama is an animal. ".repeat(40));
    for args in [
        &["perplexity", "x.gguf", "--text", "text", "--context", "16"][..],
        &["imatrix", "x.gguf", "--text", "text", "--context", "16", "-o", "im.gguf"],
        &["generate", "x.gguf", "--prompt", "a llama", "-n", "4"],
        &["embed", "x.gguf", "--prompt", "x", "--pooling", "mean"],
    ] {
        let ran = sandbox.eval(args);
        assert_eq!(ran.code, Some(1), "{args:?}: {}", ran.stderr);
        assert!(ran.stderr.contains("needs audio input") && ran.stderr.contains("hint: "), "{}", ran.stderr);
    }
    assert!(!sandbox.path("im.gguf").exists());
}
