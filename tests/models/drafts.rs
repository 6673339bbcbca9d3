//! Speculative decoding with tiny drafts, compared with the tokens that llama.cpp proposes and accepts.

use std::fs;

use gguf_runtime::{
    Error, Model, Options,
    draft::{DraftModel, Limits, Step, Written, write},
};
use serde_json::Value;

use crate::common::{Sandbox, golden, succeed};

fn options() -> Options {
    Options { threads: Some(1), ..Options::new(gguf_models::GRAPHS) }
}

/// The tiny checkpoints `target` and `draft` in f32, opened next to each other.
fn open(sandbox: &Sandbox, target: &str, draft: &str) -> (Model, Result<DraftModel, Error>) {
    succeed(sandbox.convert(&[target, "target.gguf", "-t", "f32", "-q"]));
    // Drafts take their tokenizer from the target.
    let mut call = vec![draft, "draft.gguf", "-t", "f32", "-q"];
    if draft != target {
        call.extend(["--target-model-dir", target]);
    }
    succeed(sandbox.convert(&call));
    let model = Model::open(&sandbox.path("target.gguf"), &options()).unwrap();
    let draft = DraftModel::open(&sandbox.path("draft.gguf"), &model, &options());
    (model, draft)
}

fn ids(value: &Value) -> Vec<u32> {
    value.as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect()
}

#[test]
fn proposals_and_acceptance_match_llama_cpp() {
    let mut problems = Vec::new();
    let mut n_accepted = 0;
    let selected = std::env::var("LOGITS").unwrap_or_default();
    for entry in fs::read_dir(golden("drafts")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        if !name.contains(&selected) {
            continue;
        }
        let golden: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        let target_name = golden["target"].as_str().unwrap();
        let sandbox = Sandbox::with_golden(target_name);
        if name != target_name {
            sandbox.add_golden(&name);
        }
        let (target, draft) = open(&sandbox, target_name, &name);
        let draft = draft.unwrap();
        let (mut steps, mut tokens) = (Vec::new(), Vec::new());
        for step in golden["steps"].as_array().unwrap() {
            let (proposed, n) = (ids(&step["proposed"]), step["accepted"].as_u64().unwrap() as usize);
            tokens.extend(&proposed[..n]);
            tokens.push(step["next"].as_u64().unwrap() as u32);
            n_accepted += n;
            steps.push(Step { proposed, n_accepted: n });
        }
        let n_proposed = golden["n_proposed"].as_u64().unwrap() as usize;
        let limits = Limits { n_tokens: tokens.len(), n_proposed };
        let found = write(&target, &draft, &ids(&golden["prompt"]), limits, &mut || true).unwrap();
        // The reference continues after an end-of-text token.
        let n = found.steps.len();
        let expected = Written { tokens: tokens[..found.tokens.len()].to_vec(), steps: steps[..n].to_vec() };
        let is_whole =
            n == steps.len() || target.tokenizer().ends().contains(&found.tokens[found.tokens.len() - 1]);
        if found != expected || !is_whole || n < 4 {
            problems.push(format!("{name}:\nfound    {found:?}\nexpected {expected:?}"));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    assert!(n_accepted > 10 || !selected.is_empty(), "{n_accepted}");
}

#[test]
fn text_with_draft_matches_target_alone() {
    let sandbox = Sandbox::with_golden("qwen3.5-text");
    succeed(sandbox.convert(&["qwen3.5-text", "target.gguf", "-t", "f32", "-q"]));
    let model = Model::open(&sandbox.path("target.gguf"), &options()).unwrap();
    // The same model with coarse weights accepts some tokens; its layers keep a state that cannot be rewound.
    succeed(sandbox.convert(&["qwen3.5-text", "draft.gguf", "-t", "q8_0", "-q"]));
    let draft = DraftModel::open(&sandbox.path("draft.gguf"), &model, &options()).unwrap();
    let prompt: Vec<u32> = (0..16).map(|i| 10 + (i * 37) % 300).collect();
    let limits = Limits { n_tokens: 24, n_proposed: 4 };
    let written = write(&model, &draft, &prompt, limits, &mut || true).unwrap();
    let mut sampler = gguf_runtime::generate::Sampler::new(gguf_runtime::generate::Sampling::default());
    let mut alone =
        gguf_runtime::generate::generate(&model, &prompt, written.tokens.len(), &mut sampler, &mut |_| true)
            .unwrap();
    let ends = model.tokenizer().ends();
    // Alone, a token that ends the text is left out.
    let mut tokens = written.tokens.clone();
    tokens.retain(|id| !ends.contains(id));
    alone.truncate(tokens.len());
    assert_eq!(tokens, alone);
    assert!(written.steps.iter().any(|step| step.n_accepted > 0), "{written:?}");
}

#[test]
fn drafts_without_matching_target_are_refused() {
    let sandbox = Sandbox::with_golden("mimo2");
    sandbox.add_golden("dflash");
    let (_, draft) = open(&sandbox, "mimo2", "dflash");
    draft.unwrap();
    let error = Model::open(&sandbox.path("draft.gguf"), &options()).err().unwrap();
    assert!(matches!(&error, Error::DraftAlone { architecture } if architecture == "dflash"), "{error}");
    sandbox.add_golden("llama-llama3");
    succeed(sandbox.convert(&["llama-llama3", "wide.gguf", "-t", "f32", "-q"]));
    let wide = Model::open(&sandbox.path("wide.gguf"), &options()).unwrap();
    let error = DraftModel::open(&sandbox.path("draft.gguf"), &wide, &options()).err().unwrap();
    assert!(matches!(error, Error::TensorShape { .. } | Error::DraftWidth { .. }), "{error}");
    sandbox.add_golden("gemma");
    succeed(sandbox.convert(&["gemma", "other.gguf", "-t", "f32", "-q"]));
    let error = DraftModel::open(&sandbox.path("other.gguf"), &wide, &options()).err().unwrap();
    assert!(matches!(error, Error::DraftVocabulary { .. }), "{error}");
}
