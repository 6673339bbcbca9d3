//! Measurements on the wrong input: other tokenizers, other encodings, importance matrices that are not finite.

use std::fs;

use crate::common::{Sandbox, succeed, words};

/// `a.gguf`, and `text.txt` with enough tokens for two windows.
fn sandbox() -> Sandbox {
    let sandbox = Sandbox::with_converted("llama", "a.gguf", "f32");
    sandbox.write("text.txt", "The quick brown fox jumps over the lazy dog. ".repeat(20));
    sandbox
}

#[test]
fn compare_of_other_tokens_names_the_first_difference() {
    let sandbox = sandbox();
    let file = sandbox.model("a.gguf");
    let tokens = file.metadata().texts("tokenizer.ggml.tokens").unwrap().unwrap();
    let id = (0..tokens.len()).rev().find(|id| tokens.get(*id).unwrap().len() == 4).unwrap();
    let token = tokens.get(id).unwrap().to_vec();
    let mut bytes = sandbox.read("a.gguf");
    let stored = [&4u64.to_le_bytes()[..], &token].concat();
    let at = bytes.windows(12).position(|window| window == stored).unwrap();
    bytes[at + 8..at + 12].copy_from_slice(b"zzzz");
    sandbox.write("b.gguf", bytes);
    let args = ["compare", "a.gguf", "b.gguf", "--text", "text.txt", "--context", "16", "--chunks", "2"];
    let ran = succeed(sandbox.eval(&args));
    let expected = format!("token {id} is \"zzzz\" instead of \"{}\"", String::from_utf8_lossy(&token));
    ran.says("the tokenizer differs from that of a.gguf");
    ran.says(&expected);
    // Once, and before the work.
    let places = |text: &str| ran.stderr.match_indices(text).map(|(at, _)| at).collect::<Vec<_>>();
    let (few, done) = (places("2 chunks of text: the metrics are imprecise"), places("2 of 2 chunks"));
    assert!(few.len() == 1 && few < done, "{}", ran.stderr);
    fs::copy(sandbox.path("a.gguf"), sandbox.path("b.gguf")).unwrap();
    assert!(!sandbox.eval(&args).stderr.contains("tokenizer"));
}

#[test]
fn other_text_encodings_are_reported() {
    let sandbox = sandbox();
    let text = sandbox.text("text.txt");
    let utf16: Vec<u8> =
        "\u{feff}".chars().chain(text.chars()).flat_map(|c| (c as u16).to_le_bytes()).collect();
    sandbox.write("utf16.txt", utf16);
    sandbox.write("latin1.txt", [b"Z\xfcrich ".as_slice(), text.as_bytes()].concat());
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
            let ran = succeed(sandbox.eval(&[verb, &["--text", name], &of_context[..]].concat()));
            let is_warned = ran.stderr.contains(&format!("{name}: expected UTF-8, "));
            assert_eq!(is_warned, !expected.is_empty(), "{verb:?} {name}: {}", ran.stderr);
            assert!(ran.stderr.contains(expected), "{verb:?} {name}: {}", ran.stderr);
        }
    }
}

#[test]
fn option_file_with_bom_is_read() {
    let sandbox = sandbox();
    sandbox.write("types.txt", "\u{feff}attn_v=q8_0\n");
    let ran = sandbox.quantize(&words("--tensor-type-file types.txt a.gguf o.gguf q4_0"));
    assert!(ran.code == Some(0) && !ran.stderr.contains("warning"), "{}", ran.stderr);
    let shown = sandbox.inspect(&["show", "o.gguf", "--full"]).stdout;
    let line = shown.lines().find(|line| line.contains("blk.0.attn_v.weight")).unwrap();
    assert!(line.to_lowercase().contains("q8_0"), "{line}");
}

#[test]
fn importance_merge_refuses_nan_by_file() {
    let sandbox = sandbox();
    let make = |output| {
        let args =
            ["imatrix", "a.gguf", "--text", "text.txt", "--context", "16", "--chunks", "2", "-o", output];
        succeed(sandbox.eval(&args));
    };
    make("good.gguf");
    let mut sums = gguf_imatrix::Sums::open(&sandbox.path("good.gguf")).unwrap();
    let (name, mut first) = sums.entries.pop_first().unwrap();
    sandbox.write("less.gguf", sums.to_bytes(gguf_imatrix::Format::Gguf).unwrap());
    first.sums[3] = f32::NAN;
    sums.entries.insert(name.clone(), first);
    sandbox.write("bad.gguf", sums.to_bytes(gguf_imatrix::Format::Gguf).unwrap());
    let merge = |added| sandbox.eval(&["imatrix", "--merge", "good.gguf", added, "-o", "m.gguf", "--force"]);
    let bad = merge("bad.gguf");
    assert_eq!(bad.code, Some(1));
    let expected = format!("bad.gguf: entry `{name}`: sum 3 is NaN, expected a finite number of at least 0");
    bad.says(&expected);
    assert!(!sandbox.path("m.gguf").exists());
    let less = succeed(merge("less.gguf"));
    less.says(&format!("`{name}` is missing"));
    assert!(!merge("good.gguf").stderr.contains("warning"));
}
