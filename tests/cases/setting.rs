//! `gguf-inspect set` reports what `verify` would report.

use crate::common::{Output, Sandbox, succeed, verify};

fn with_model() -> Sandbox {
    Sandbox::with_converted("llama", "in.gguf", "bf16")
}

fn set(sandbox: &Sandbox, value: &str) -> Output {
    sandbox.inspect(&["set", "in.gguf", "-o", "out.gguf", "--force", value])
}

#[test]
fn invalid_values_are_reported_as_by_verify() {
    let sandbox = with_model();
    for (value, warning) in [
        ("tokenizer.chat_template=str:{% if x %}", "`tokenizer.chat_template` cannot be parsed"),
        ("tokenizer.ggml.eos_token_id=5000", "`tokenizer.ggml.eos_token_id`: 5000 is out of range"),
        ("general.tags=str:chat", "`general.tags`: expected type arr[str] by the specification, found str"),
        ("general.file_type=7", "`general.file_type` is Q8_0"),
        ("llama.embedding_length=64", "`output_norm.weight`"),
        ("llama.block_count=3", "tensor `blk.2."),
        ("llama.context_length=str:x", "`llama.context_length`"),
    ] {
        let ran = set(&sandbox, value);
        assert_eq!(ran.code, Some(0), "{value}: {}", ran.stderr);
        let is_reported =
            ran.stderr.lines().any(|line| line.starts_with("warning: ") && line.contains(warning));
        assert!(is_reported, "{value}: {}", ran.stderr);
        let (_, _, report) = verify(&sandbox, &["out.gguf", "--strict"]);
        assert!(report.contains(warning), "{value}: {report}");
    }
}

#[test]
fn edits_that_make_a_file_invalid_need_force() {
    let sandbox = with_model();
    sandbox.write("bad.jinja", "{% for m in messages %}{{ m.content }");
    let before = sandbox.read("in.gguf");
    for edit in [
        &["set", "in.gguf", "--chat-template", "bad.jinja"][..],
        &["set", "in.gguf", "tokenizer.ggml.eos_token_id=5000"],
        &["set", "in.gguf", "tokenizer.ggml.token_type=arr[i32]:[1]"],
        &["unset", "in.gguf", "llama.block_count"],
        &["rename", "in.gguf", "llama.block_count=x"],
    ] {
        sandbox.inspect(edit).ends_and_says(1, "the file would be invalid: ");
        assert!(sandbox.read("in.gguf") == before, "{edit:?}");
        succeed(sandbox.inspect(&[edit, &["-o", "out.gguf", "--force"]].concat()));
        assert_eq!(verify(&sandbox, &["out.gguf"]).0, Some(1), "{edit:?}");
    }
}

#[test]
fn token_ids_are_set_by_text() {
    let sandbox = with_model();
    let file = sandbox.model("in.gguf");
    let tokens = file.metadata().texts("tokenizer.ggml.tokens").unwrap().unwrap();
    let text = String::from_utf8(tokens.get(7).unwrap().to_vec()).unwrap();
    for key in ["tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id"] {
        succeed(set(&sandbox, &format!("{key}={text}")));
        assert_eq!(sandbox.model("out.gguf").get(key).unwrap().as_u64(), Some(7), "{key}");
    }
    set(&sandbox, "tokenizer.ggml.eos_token_id=<no such token>")
        .ends_and_says(2, "expected a u32 or the text of a token, found `<no such token>`");
}

#[test]
fn removed_template_leaves_the_list() {
    let sandbox = with_model();
    for value in [
        "tokenizer.chat_templates=arr[str]:[\"rag\", \"tool_use\"]",
        "tokenizer.chat_template.rag=str:{{ messages[0].content }}",
        "tokenizer.chat_template.tool_use=str:{{ messages[0].content }}",
    ] {
        succeed(sandbox.inspect(&["set", "in.gguf", value]));
    }
    let names = || {
        let model = sandbox.model("in.gguf");
        let names = model.metadata().texts("tokenizer.chat_templates").unwrap();
        names.map(|names| {
            names.iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect::<Vec<_>>()
        })
    };
    for (key, left) in [("rag", Some(vec!["tool_use".to_owned()])), ("tool_use", None)] {
        succeed(sandbox.inspect(&["unset", "in.gguf", &format!("tokenizer.chat_template.{key}")]));
        assert_eq!(names(), left);
    }
}

#[test]
fn valid_values_are_set_silently() {
    let sandbox = with_model();
    for value in
        ["general.name=str:x", "llama.context_length=64", r#"general.tags=["chat"]"#, "general.license=mit"]
    {
        let ran = set(&sandbox, value);
        assert_eq!(ran.code, Some(0), "{value}: {}", ran.stderr);
        assert!(!ran.stderr.contains("warning"), "{value}: {}", ran.stderr);
    }
}

#[test]
fn types_of_the_specification_are_suggested() {
    let ran = set(&with_model(), "general.tags=chat");
    ran.ends_and_says(2, r#"use general.tags='arr[str]:["chat"]'"#);
}

#[test]
fn alignment_names_the_command_that_changes_it() {
    let sandbox = with_model();
    let ran = set(&sandbox, "general.alignment=u32:64");
    assert_eq!(ran.code, Some(1));
    let wanted = "gguf-quantize in.gguf OUT copy --override-kv general.alignment=int:64";
    ran.says(wanted);
    let args: Vec<&str> =
        wanted.split(' ').skip(1).map(|word| if word == "OUT" { "out.gguf" } else { word }).collect();
    succeed(sandbox.quantize(&args));
    assert_eq!(verify(&sandbox, &["out.gguf"]).0, Some(0));
}

#[test]
fn byte_order_mark_of_a_template_is_dropped() {
    let sandbox = with_model();
    sandbox.write("t.jinja", "\u{feff}{{ messages[0].content }}");
    for args in [&["--chat-template", "t.jinja"][..], &["tokenizer.chat_template=str:@t.jinja"]] {
        succeed(sandbox.inspect(&[&["set", "in.gguf"], args].concat()));
        let shown = sandbox.inspect(&["export-metadata", "in.gguf"]).stdout;
        assert!(shown.contains(r#""value": "{{ messages[0].content }}""#), "{shown}");
    }
}
