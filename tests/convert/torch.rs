//! `gguf-convert` of folders whose weights are torch pickles or in Mistral's own layout.

use std::fs;

use crate::common::{Output, Sandbox, copy_folder, golden, sha256, silent, succeed, words};
use serde_json::Value as Json;

/// The digest of a complete file by the reference.
fn expected(name: &str, outtype: &str) -> String {
    let text = fs::read(golden("torch").join(name).join("expected.json")).unwrap();
    let json: Json = serde_json::from_slice(&text).unwrap();
    json[outtype][1].as_str().unwrap().to_owned()
}

fn place(name: &str, tokenizer: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    copy_folder(&golden("torch").join(name), &sandbox.path(name));
    fs::copy(golden("torch").join("tokenizer.model"), sandbox.path(name).join(tokenizer)).unwrap();
    sandbox
}

/// Removes the context length, which the reference does not write if params.json states none.
fn omit_length(sandbox: &Sandbox) {
    let keys = ["llama.context_length", "mistral3.context_length"];
    let file = sandbox.file("x.gguf");
    let key = keys.into_iter().find(|key| file.get(key).is_some()).unwrap();
    drop(file);
    succeed(sandbox.inspect(&["unset", "x.gguf", key, "--force"]));
}

#[test]
fn requested_copy_is_read() {
    let sandbox = place("mistral-fp8", "tokenizer.model.v3");
    for file in ["config.json", "pytorch_model.bin"] {
        fs::copy(golden("torch/bin").join(file), sandbox.path("mistral-fp8").join(file)).unwrap();
    }
    let run = |more: &[&str]| {
        sandbox.convert(&[&["mistral-fp8", "x.gguf", "--type", "f32", "--force"], more].concat())
    };
    let ran = run(&["--mistral-format", "--quiet"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    omit_length(&sandbox);
    assert_eq!(sha256(&sandbox.read("x.gguf")), expected("mistral-fp8", "f32"));
    let ran = succeed(run(&[]));
    let note = "weights are read from `pytorch_model.bin` (torch pickles); ignored: `consolidated.safetensors` (Mistral's own layout of safetensors)";
    ran.says(note);
    assert_ne!(sha256(&sandbox.read("x.gguf")), expected("mistral-fp8", "f32"));
    // The vocabulary alone needs no weights, but the parameters.
    fs::remove_file(sandbox.path("mistral-fp8/consolidated.safetensors")).unwrap();
    let ran = run(&["--mistral-format"]);
    assert_eq!((ran.code, sandbox.path("y.gguf").exists()), (Some(1), false), "{}", ran.stderr);
}

#[test]
fn pickle_with_other_imports_is_refused() {
    let sandbox = place("bin", "tokenizer.model");
    fs::copy(golden("torch/refused/counter.bin"), sandbox.path("bin/pytorch_model.bin")).unwrap();
    let stderr = "error: bin: `pytorch_model.bin`: byte 172 of the pickle imports `collections.Counter`, which is not allowed\nhint: save only the state dict, with `torch.save(model.state_dict(), file)`, or use safetensors\n";
    let ran = sandbox.convert(&["bin", "x.gguf", "--type", "bf16"]);
    assert_eq!(ran, Output { code: Some(1), stdout: String::new(), stderr: stderr.to_owned() });
    assert!(!sandbox.path("x.gguf").exists());
}

#[test]
fn pickled_adapter_matches_its_safetensors() {
    let sandbox = Sandbox::new();
    copy_folder(&golden("lora/llama"), &sandbox.path("llama"));
    copy_folder(&gguf_testkit::checkpoint("llama-head-dim"), &sandbox.path("base"));
    fs::remove_file(sandbox.path("llama/adapter_model.safetensors")).unwrap();
    fs::copy(golden("torch/adapter_model.bin"), sandbox.path("llama/adapter_model.bin")).unwrap();
    assert_eq!(sandbox.convert(&words("adapter llama x.gguf --base base --quiet")), silent());
    let lines = fs::read_to_string(golden("lora/llama/expected.txt")).unwrap();
    let f32_line = lines.lines().find(|line| line.starts_with("f32 ")).unwrap();
    assert!(f32_line.ends_with(&sha256(&sandbox.read("x.gguf"))));
}
