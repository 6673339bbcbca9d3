//! `gguf-eval compare --continuations`: against greedy tokens of whole forward passes, without sessions.

use std::fs;

use gguf_runtime::{Model, Options, Sequence};

use crate::common::{Sandbox, succeed, words};

const PROMPTS: usize = 12;

/// A tiny llama in f32, two quantized files of it, and a text.
fn sandbox() -> Sandbox {
    let sandbox = Sandbox::with_converted("llama", "base.gguf", "f32");
    for file_type in ["q8_0", "q2_k"] {
        let output = format!("{file_type}.gguf");
        succeed(sandbox.quantize(&["--pure", "base.gguf", &output, file_type, "--quiet"]));
    }
    sandbox.add_text();
    sandbox
}

/// The next 32 greedy tokens after a prompt, and the end token if it comes sooner.
fn continuation(model: &Model, prompt: &[u32]) -> Vec<u32> {
    let mut tokens = prompt.to_vec();
    while tokens.len() < prompt.len() + 32 {
        let last = tokens.len() - 1;
        let hidden = model.run(&[Sequence { tokens: &tokens, outputs: last..last + 1 }], None).unwrap();
        let mut logits = vec![0.0; model.n_vocab()];
        model.logits(&hidden, 0..1, None, &mut logits).unwrap();
        let best = (0..logits.len()).rev().max_by(|a, b| logits[*a].total_cmp(&logits[*b])).unwrap() as u32;
        tokens.push(best);
        if model.tokenizer().ends().contains(&best) {
            break;
        }
    }
    tokens.split_off(prompt.len())
}

#[test]
fn agreement_matches_greedy_tokens_of_whole_passes() {
    let sandbox = sandbox();
    let args =
        "compare base.gguf q8_0.gguf q2_k.gguf base.gguf --text text -c 64 --chunks 2 --continuations 12";
    let run = |more: &str| succeed(sandbox.eval(&[words(args), words(more)].concat())).stdout;
    let json = run("--json -q --threads 1");
    assert_eq!(run("--json -q --threads 2"), json);
    let report: serde_json::Value = serde_json::from_str(&json).unwrap();

    let options = Options { threads: Some(1), ..Options::new(gguf_models::GRAPHS) };
    let open = |name: &str| Model::open(&sandbox.path(name), &options).unwrap();
    let base = open("base.gguf");
    let tokens = base.tokenizer().encode(fs::read(sandbox.path("text")).unwrap(), true, false).unwrap();
    let prompts: Vec<Vec<u32>> = (0..PROMPTS)
        .map(|i| {
            let begin = i * tokens.len() / PROMPTS;
            let mut prompt = tokens[begin..begin + 64].to_vec();
            if base.tokenizer().adds_bos() {
                prompt[0] = base.tokenizer().bos().unwrap();
            }
            prompt
        })
        .collect();
    let expected: Vec<Vec<u32>> = prompts.iter().map(|prompt| continuation(&base, prompt)).collect();
    let mut means = Vec::new();
    for (index, name) in ["q8_0.gguf", "q2_k.gguf", "base.gguf"].into_iter().enumerate() {
        let model = open(name);
        let n_equal: Vec<f64> = prompts
            .iter()
            .zip(&expected)
            .map(|(prompt, expected)| {
                let found = continuation(&model, prompt);
                if found == *expected {
                    return 32.0;
                }
                found.iter().zip(expected).take_while(|(a, b)| a == b).count() as f64
            })
            .collect();
        let n = PROMPTS as f64;
        let mean = n_equal.iter().sum::<f64>() / n;
        let variance = n_equal.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n;
        let share = n_equal.iter().filter(|x| **x == 32.0).count() as f64 / n;
        let found = &report["files"][index]["continuations"];
        assert_eq!((found["n_prompts"].as_u64(), found["prompt_tokens"].as_u64()), (Some(12), Some(64)));
        assert_eq!(found["continuation_tokens"], 32);
        for (key, value, variance) in
            [("same", share, share * (1.0 - share)), ("tokens_before_difference", mean, variance)]
        {
            let near = |field: &str, expected: f64| {
                let found = found[key][field].as_f64().unwrap();
                assert!((found - expected).abs() < 1e-9, "{name} {key} {field}: {found}, {expected}");
            };
            near("value", value);
            near("error", (variance / (n - 1.0)).sqrt());
        }
        means.push(mean);
    }
    // The files differ in all three ways, so that the comparison above can fail.
    assert!(means[0] > means[1] && means[1] < 32.0 && means[2] == 32.0, "{means:?}");

    let table = run("-q");
    let header = table.lines().find(|line| line.ends_with("before difference")).unwrap();
    assert!(header.ends_with("same continuation  tokens before difference"), "{table}");
    let row = table.lines().filter(|line| line.starts_with("q2_k ")).nth(1).unwrap();
    assert!(row.contains(&format!("{:.2} ± ", means[1])), "{table}");
    // Predictions do not depend on them.
    let without = words("compare base.gguf q2_k.gguf --text text -c 64 --chunks 2 -q");
    let with = [&without[..], &["--continuations", "12", "--html", "page.html"]].concat();
    let (without, with) = (succeed(sandbox.eval(&without)).stdout, succeed(sandbox.eval(&with)).stdout);
    for name in ["same continuation of 32 tokens", "tokens before first difference"] {
        assert!(with.contains(name) && sandbox.text("page.html").contains(name) && !without.contains(name));
    }
}

#[test]
fn continuations_without_enough_text_are_refused() {
    let sandbox = sandbox();
    let args = |line| sandbox.eval(&words(line));
    args("compare base.gguf q8_0.gguf --text text --continuations 100000 -q").ends_and_says(1, "too short");
    args("compare base.gguf q8_0.gguf --text text --continuations 0").ends_and_says(2, "--continuations");
    args("compare base.gguf q8_0.gguf --tensors --continuations 5").ends_and_says(2, "--text");
    args("compare base.gguf --text text --save-logits x.kld --continuations 5")
        .ends_and_says(2, "greedy continuations need");
    args("compare base.gguf q8_0.gguf --text text --continuations 5 --part 1/2 --output x.part")
        .ends_and_says(2, "--part");
}
