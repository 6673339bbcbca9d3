//! `verify --for`: uses of a file by other programs. The detection of templates is compared with that of Ollama.

use std::fs;

use gguf_toolkit::verify::OllamaTemplate;
use serde_json::Value;

use crate::common::{Sandbox, golden, succeed};

/// Chat templates of published models and the results of Ollama's own functions for them.
fn templates() -> Vec<Value> {
    serde_json::from_slice(&fs::read(golden("programs/ollama-templates.json")).unwrap()).unwrap()
}

#[test]
fn detection_agrees_with_ollama_on_published_templates() {
    let rows = templates();
    assert!(rows.len() >= 100, "{}", rows.len());
    for row in &rows {
        let text = row["text"].as_str().unwrap();
        let found = OllamaTemplate::find(text);
        let ours = found.map(|found| serde_json::json!([found.name, found.distance]));
        assert_eq!(ours.unwrap_or(Value::Null), row["ollama"], "{}", row["name"]);
        let yields = found.is_some_and(|found| found.yields_to(text));
        assert_eq!(Value::from(yields), row["prefers_file"], "{}", row["name"]);
    }
}

#[test]
fn replaced_templates_are_reported_with_their_loss() {
    let sandbox = Sandbox::with_base_and_text();
    let rows = templates();
    let verdict = |model: &str| {
        let row = rows.iter().find(|row| row["name"] == model).unwrap();
        sandbox.write("t.jinja", row["text"].as_str().unwrap());
        succeed(sandbox.inspect(&["set", "base.gguf", "--chat-template", "t.jinja", "-q"]));
        let ran = sandbox.inspect(&["verify", "base.gguf", "--only", "loader", "--for", "ollama"]);
        [&*ran.stdout, &*ran.stderr].concat()
    };
    let smollm = verdict("ollama-utils/library/smollm2:135m");
    for part in [
        "its nearest template `chatml`",
        "a question: at character",
        "as `gguf-inspect show FILE --modelfile Modelfile` does",
        "loses the default system prompt: `You are a helpful AI assistant named SmolLM",
    ] {
        assert!(smollm.contains(part), "{part}: {smollm}");
    }
    let llama = verdict("llama.cpp/meta-llama-Llama-3.1-8B-Instruct.jinja");
    assert!(llama.contains("with the template of the file") && llama.contains("loses: tools"), "{llama}");
    let equal = verdict("ollama-utils/library/dolphin-mixtral:8x7b");
    assert!(equal.contains("with its template `chatml`"), "{equal}");
    // The tiny vocabulary lacks the marks, whichever program writes them.
    let marks =
        "`tokenizer.chat_template` has marks that are not in the vocabulary: `<|im_end|>`, `<|im_start|>`";
    assert!(
        equal.contains(&format!("warning: ollama: {marks}")) && !equal.contains("warning: template: "),
        "{equal}"
    );
    let ran = sandbox.inspect(&["verify", "base.gguf", "--for", "llama.cpp,lm-studio,vLLM,transformers"]);
    let report = [&*ran.stdout, &*ran.stderr].concat();
    assert_eq!(report.matches(marks).count(), 5, "{report}");
    let broken = "tokenizer.chat_template=str:{{ a\n}}\n{% for m in messages %}{{ m + }}{% endfor %}";
    succeed(sandbox.inspect(&["set", "base.gguf", broken, "--force", "-q"]));
    let ran = sandbox.inspect(&["verify", "base.gguf", "--only", "loader", "--for", "ollama,lm-studio,vllm"]);
    let report = [&*ran.stdout, &*ran.stderr].concat();
    let finding = "fails on chat requests: `tokenizer.chat_template` cannot be parsed: line 3: ";
    assert_eq!(report.matches(finding).count(), 3, "{report}");
}

#[test]
fn types_and_architectures_are_those_of_the_program() {
    let sandbox = Sandbox::with_base_and_text();
    succeed(sandbox.quantize(&["base.gguf", "q.gguf", "q1_0", "--force", "-q"]));
    let verdict = |programs: &str| {
        let ran = sandbox.inspect(&["verify", "q.gguf", "--only", "loader", "--for", programs, "--json"]);
        let report: Value = serde_json::from_str(&ran.stdout).unwrap();
        let checks = report["checks"].as_array().unwrap().iter();
        let codes = checks.map(|check| (check["name"].clone(), check["findings"][0]["code"].clone()));
        codes
            .map(|(name, code)| format!("{}={}", name.as_str().unwrap(), code.as_str().unwrap_or("ok")))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        verdict("llama.cpp,lm-studio,vllm,transformers,comfyui,comfyui-molbal"),
        [
            "llama.cpp=ok",
            "lm-studio=ok",
            "vllm=type",
            "transformers=type",
            "comfyui=type",
            "comfyui-molbal=type"
        ]
    );
    succeed(sandbox.quantize(&["base.gguf", "q.gguf", "tq2_0", "--force", "-q"]));
    assert_eq!(verdict("ollama,transformers"), ["ollama=type", "transformers=ok"]);
}
