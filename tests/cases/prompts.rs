//! Chat templates and files of chats.

use crate::common::{Output, Sandbox, succeed};

/// `in.gguf` with this text as its chat template.
fn with_template(template: &str) -> Sandbox {
    let sandbox = Sandbox::with_converted("llama", "in.gguf", "f32");
    sandbox.write("t.jinja", template);
    succeed(sandbox.inspect(&["set", "in.gguf", "--chat-template", "t.jinja"]));
    sandbox
}

/// `verify --only template` of a file with this chat template.
fn verify_template(template: &str) -> Output {
    with_template(template).inspect(&["verify", "in.gguf", "--only", "template"])
}

#[test]
fn template_names_render_or_are_refused() {
    let known = verify_template("mistral-v7");
    assert!(known.code == Some(0) && known.stdout.contains("7 of 7 prompts rendered"), "{}", known.stdout);
    let unknown = verify_template("rwkv-world");
    assert_eq!(unknown.code, Some(1), "{}", unknown.stdout);
    assert!(unknown.stdout.contains("unknown template name `rwkv-world`"), "{}", unknown.stdout);
}

#[test]
fn prompt_without_the_users_text_is_reported() {
    let ran = verify_template("{% for m in messages %}{{ m.role }}{% endfor %}");
    assert_eq!(ran.code, Some(1), "{}", ran.stdout);
    assert!(ran.stdout.contains("do not contain the user message"), "{}", ran.stdout);
}

#[test]
fn partly_missing_user_text_is_a_warning() {
    let ran =
        verify_template("{% if not tools %}{% for m in messages %}{{ m.content }}{% endfor %}{% endif %}");
    assert_eq!(ran.code, Some(0), "{}", ran.stdout);
    assert!(ran.stdout.contains("2 of 7 prompts do not contain the user message"), "{}", ran.stdout);
}

#[test]
fn template_of_text_parts_passes_verification() {
    let ran = verify_template(
        "{% for m in messages %}{% for part in m.content %}{{ part.text }}{% endfor %}{% endfor %}",
    );
    assert!(ran.code == Some(0) && ran.stdout.contains("7 of 7 prompts rendered"), "{}", ran.stdout);
    assert!(!ran.stdout.contains("do not contain"), "{}", ran.stdout);
}

#[test]
fn template_sees_the_padding_token() {
    let sandbox = with_template("{{ pad_token }}{% for m in messages %}{{ m.content }}{% endfor %}");
    succeed(sandbox.inspect(&["set", "in.gguf", "tokenizer.ggml.padding_token_id=u32:5"]));
    let path = sandbox.path("in.gguf");
    let file = gguf_container::Model::open(&path).unwrap();
    let tokens = gguf_runtime::chat::SpecialTokens::of(file.metadata());
    let expected = file.metadata().texts("tokenizer.ggml.tokens").unwrap().unwrap();
    let expected = String::from_utf8_lossy(expected.get(5).unwrap()).into_owned();
    assert_eq!(tokens.other_tokens.iter().find(|(name, _)| *name == "pad_token").unwrap().1, expected);
}

#[test]
fn prompt_command_prints_rendered_template() {
    let sandbox = with_template(
        "{{ bos_token }}{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}{{ mood }}\
         {% for t in tools or [] %}{{ t.function.name }}{% endfor %}{{ strftime_now('%d %b %Y') }}\
         {% if add_generation_prompt %}[assistant]{% endif %}",
    );
    sandbox.write("c.json", r#"{"messages": [{"role": "user", "content": "Zürich"}]}"#);
    sandbox.write("t.json", r#"[{"type": "function", "function": {"name": "sky"}}]"#);
    let args = ["prompt", "in.gguf", "--messages", "c.json", "--date", "2024-07-26"];
    let run = |more: &[&str]| {
        let ran = succeed(sandbox.inspect(&[&args[..], more].concat()));
        ran.stdout
    };
    let plain = run(&[]);
    let bos = plain.strip_suffix("[user]Zürich26 Jul 2024[assistant]").unwrap();
    assert!(!bos.is_empty());
    let more = ["--tools", "t.json", "--kwargs", r#"{"mood": "!"}"#, "--no-generation-prompt"];
    assert_eq!(run(&more), format!("{bos}[user]Zürich!sky26 Jul 2024"));
    let json: serde_json::Value = serde_json::from_str(&run(&["--json"])).unwrap();
    assert_eq!(json, serde_json::json!({"prompt": plain, "template": "tokenizer.chat_template"}));
    let named = sandbox.inspect(&[&args[..], &["--template", "rag"]].concat());
    named.ends_and_says(1, "unknown template `rag`; named templates: none");
}

#[test]
fn imatrix_renders_chats() {
    let sandbox = with_template("{% for m in messages %}{{ m.content }}{% endfor %}");
    let text = "The quick brown fox jumps over the lazy dog. ".repeat(20);
    let content = &text[..text.len() - 1];
    sandbox.write("c.jsonl", format!("[{{\"role\": \"user\", \"content\": \"{content}\"}}]\n"));
    sandbox.write("bad.jsonl", "{\"text\": \"x\"}\n");
    let run = |text| {
        let args =
            ["imatrix", "in.gguf", "--text", text, "--context", "16", "--chunks", "2", "-o", "out.gguf"];
        sandbox.eval(&args)
    };
    let bad = run("bad.jsonl");
    bad.says("bad.jsonl: line 1: missing `messages`");
    succeed(run("c.jsonl"));
}
