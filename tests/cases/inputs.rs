//! Measurements on the wrong input: other tokenizers, other encodings, importance matrices that are not finite.

use std::fs;

use crate::common::Sandbox;

const EVAL: &str = env!("CARGO_BIN_EXE_gguf-eval");

/// `a.gguf`, and `text.txt` with enough tokens for two windows.
fn sandbox() -> Sandbox {
    let sandbox = Sandbox::with_golden("llama");
    assert_eq!(sandbox.convert(&["llama", "a.gguf", "-t", "f32", "-q"]).code, Some(0));
    fs::write(sandbox.path("text.txt"), "The quick brown fox jumps over the lazy dog. ".repeat(20)).unwrap();
    sandbox
}

#[test]
fn compare_of_other_tokens_names_the_first_difference() {
    let sandbox = sandbox();
    let file = gguf::Model::open(&sandbox.path("a.gguf")).unwrap();
    let tokens = file.metadata().texts("tokenizer.ggml.tokens").unwrap().unwrap();
    let id = (0..tokens.len()).rev().find(|id| tokens.get(*id).unwrap().len() == 4).unwrap();
    let token = tokens.get(id).unwrap().to_vec();
    let mut bytes = fs::read(sandbox.path("a.gguf")).unwrap();
    let stored = [&4u64.to_le_bytes()[..], &token].concat();
    let at = bytes.windows(12).position(|window| window == stored).unwrap();
    bytes[at + 8..at + 12].copy_from_slice(b"zzzz");
    fs::write(sandbox.path("b.gguf"), bytes).unwrap();
    let args = ["compare", "a.gguf", "b.gguf", "--text", "text.txt", "--context", "16", "--chunks", "2"];
    let ran = sandbox.run(EVAL, &args);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let expected = format!("token {id} is \"zzzz\" instead of \"{}\"", String::from_utf8_lossy(&token));
    assert!(ran.stderr.contains("the tokenizer differs from that of a.gguf"), "{}", ran.stderr);
    assert!(ran.stderr.contains(&expected), "{}", ran.stderr);
    fs::copy(sandbox.path("a.gguf"), sandbox.path("b.gguf")).unwrap();
    assert!(!sandbox.run(EVAL, &args).stderr.contains("tokenizer"));
}

#[test]
fn other_text_encodings_are_reported() {
    let sandbox = sandbox();
    let text = fs::read_to_string(sandbox.path("text.txt")).unwrap();
    let utf16: Vec<u8> =
        "\u{feff}".chars().chain(text.chars()).flat_map(|c| (c as u16).to_le_bytes()).collect();
    fs::write(sandbox.path("utf16.txt"), utf16).unwrap();
    fs::write(sandbox.path("latin1.txt"), [b"Z\xfcrich ".as_slice(), text.as_bytes()].concat()).unwrap();
    let of_context = ["--context", "16", "--chunks", "2"];
    let verbs: [&[&str]; 3] = [
        &["perplexity", "a.gguf"],
        &["compare", "a.gguf", "a.gguf"],
        &["imatrix", "a.gguf", "-o", "i.gguf", "--force"],
    ];
    for (name, expected) in
        [("text.txt", ""), ("utf16.txt", "found UTF-16"), ("latin1.txt", "found an invalid byte at offset 1")]
    {
        for verb in verbs {
            let ran = sandbox.run(EVAL, &[verb, &["--text", name], &of_context[..]].concat());
            assert_eq!(ran.code, Some(0), "{}", ran.stderr);
            let is_warned = ran.stderr.contains(&format!("{name}: expected UTF-8, "));
            assert_eq!(is_warned, !expected.is_empty(), "{verb:?} {name}: {}", ran.stderr);
            assert!(ran.stderr.contains(expected), "{verb:?} {name}: {}", ran.stderr);
        }
    }
}

#[test]
fn option_file_with_bom_is_read() {
    let sandbox = sandbox();
    fs::write(sandbox.path("types.txt"), "\u{feff}attn_v=q8_0\n").unwrap();
    let binary = env!("CARGO_BIN_EXE_gguf-quantize");
    let ran = sandbox.run(binary, &["--tensor-type-file", "types.txt", "a.gguf", "o.gguf", "q4_0"]);
    assert!(ran.code == Some(0) && !ran.stderr.contains("warning"), "{}", ran.stderr);
    let shown = sandbox.inspect(&["show", "o.gguf"]).stdout;
    let line = shown.lines().find(|line| line.contains("blk.0.attn_v.weight")).unwrap();
    assert!(line.to_lowercase().contains("q8_0"), "{line}");
}

#[test]
fn importance_merge_refuses_nan_by_file() {
    let sandbox = sandbox();
    let make = |output| {
        let args =
            ["imatrix", "a.gguf", "--text", "text.txt", "--context", "16", "--chunks", "2", "-o", output];
        assert_eq!(sandbox.run(EVAL, &args).code, Some(0));
    };
    make("good.gguf");
    let mut sums = imatrix::Sums::open(&sandbox.path("good.gguf")).unwrap();
    let (name, mut first) = sums.entries.pop_first().unwrap();
    fs::write(sandbox.path("less.gguf"), sums.to_bytes(imatrix::Format::Gguf).unwrap()).unwrap();
    first.sums[3] = f32::NAN;
    sums.entries.insert(name.clone(), first);
    fs::write(sandbox.path("bad.gguf"), sums.to_bytes(imatrix::Format::Gguf).unwrap()).unwrap();
    let merge =
        |added| sandbox.run(EVAL, &["imatrix", "--merge", "good.gguf", added, "-o", "m.gguf", "--force"]);
    let bad = merge("bad.gguf");
    assert_eq!(bad.code, Some(1));
    let expected = format!("bad.gguf: entry `{name}`: sum 3 is NaN, which is not finite");
    assert!(bad.stderr.contains(&expected), "{}", bad.stderr);
    assert!(!sandbox.path("m.gguf").exists());
    let less = merge("less.gguf");
    assert_eq!(less.code, Some(0), "{}", less.stderr);
    assert!(less.stderr.contains(&format!("`{name}` is missing")), "{}", less.stderr);
    assert!(!merge("good.gguf").stderr.contains("warning"));
}
