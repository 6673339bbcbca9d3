//! Chat templates and files of chats.

use std::fs;

use crate::common::Sandbox;

const EVAL: &str = env!("CARGO_BIN_EXE_gguf-eval");

/// `in.gguf` with this text as its chat template.
fn with_template(template: &str) -> Sandbox {
    let sandbox = Sandbox::with_golden("llama");
    assert_eq!(sandbox.convert(&["llama", "in.gguf", "-t", "f32", "-q"]).code, Some(0));
    fs::write(sandbox.path("t.jinja"), template).unwrap();
    let set = sandbox.inspect(&["set", "in.gguf", "--chat-template", "t.jinja"]);
    assert_eq!(set.code, Some(0), "{}", set.stderr);
    sandbox
}

#[test]
fn template_names_render_or_are_refused() {
    let known = with_template("mistral-v7").inspect(&["verify", "in.gguf", "--only", "template"]);
    assert!(known.code == Some(0) && known.stdout.contains("7 of 7 prompts rendered"), "{}", known.stdout);
    let unknown = with_template("rwkv-world").inspect(&["verify", "in.gguf", "--only", "template"]);
    assert!(
        unknown.code != Some(0) && unknown.stdout.contains("`rwkv-world` is a name"),
        "{}",
        unknown.stdout
    );
}

#[test]
fn prompt_without_text_of_user_is_reported() {
    let sandbox = with_template("{% for m in messages %}{{ m.role }}{% endfor %}");
    let ran = sandbox.inspect(&["verify", "in.gguf", "--only", "template"]);
    assert!(
        ran.code != Some(0) && ran.stdout.contains("do not contain the text of the user"),
        "{}",
        ran.stdout
    );
}

#[test]
fn imatrix_renders_chats() {
    let sandbox = with_template("{% for m in messages %}{{ m.content }}{% endfor %}");
    let text = "The quick brown fox jumps over the lazy dog. ".repeat(20);
    let content = &text[..text.len() - 1];
    fs::write(sandbox.path("c.jsonl"), format!("[{{\"role\": \"user\", \"content\": \"{content}\"}}]\n"))
        .unwrap();
    for (text, output) in [("c.jsonl", "chat.gguf"), ("bad.jsonl", "bad.gguf")] {
        fs::write(sandbox.path("bad.jsonl"), "{\"text\": \"x\"}\n").unwrap();
        let args = ["imatrix", "in.gguf", "--text", text, "--context", "16", "-n", "2", "-o", output];
        let ran = sandbox.run(EVAL, &args);
        match text {
            "bad.jsonl" => {
                assert!(ran.stderr.contains("bad.jsonl: line 1: missing `messages`"), "{}", ran.stderr)
            }
            _ => assert_eq!(ran.code, Some(0), "{}", ran.stderr),
        }
    }
}
