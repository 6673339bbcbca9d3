//! `gguf-inspect tokenizer`: a file's tokenizer against the checkpoint's own.

use crate::common::{Sandbox, words};

/// A sandbox with a checkpoint that has a tokenizer.json, and its GGUF.
fn converted() -> Sandbox {
    Sandbox::with_converted("llama-llama3", "x.gguf", "f32")
}

#[test]
fn converted_ids_match_source_tokenizer() {
    let sandbox = converted();
    let ran = sandbox.inspect(&["tokenizer", "x.gguf", "--against", "llama-llama3"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{}", ran.stdout);
    assert!(ran.stdout.contains("differing   0\n"), "{}", ran.stdout);

    sandbox.write("own.txt", b"own text \xff");
    let ran = sandbox.inspect(&words("tokenizer x.gguf --against llama-llama3 --text own.txt --json"));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let json = ran.json();
    // The byte that is no UTF-8 became a replacement character of three bytes.
    assert_eq!((&json["text_bytes"], &json["differing"]), (&12.into(), &0.into()));
    assert!(json["ids"].as_u64().unwrap() > 0 && json["first"].is_null());
}

#[test]
fn differences_are_counted_and_fail() {
    let sandbox = converted();
    sandbox.edit_json("llama-llama3/tokenizer.json", |json| {
        let merges = json["model"]["merges"].as_array_mut().unwrap();
        assert!(!merges.is_empty());
        merges.clear();
        json["model"]["ignore_merges"] = false.into();
    });
    let ran = sandbox.inspect(&["tokenizer", "x.gguf", "--against", "llama-llama3"]);
    assert_eq!(ran.code, Some(1), "{}", ran.stdout);
    assert!(
        ran.stdout.contains("first       at id ") && ran.stdout.contains("  source    "),
        "{}",
        ran.stdout
    );
    assert!(ran.stderr.starts_with("error: x.gguf: ") && ran.stderr.contains(" ids differ from those of "));
}

#[test]
fn source_without_tokenizer_json_is_refused() {
    let sandbox = Sandbox::with_converted("llama", "x.gguf", "f32");
    let ran = sandbox.inspect(&["tokenizer", "x.gguf", "--against", "llama"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""));
    ran.says("tokenizer.json: missing file");
    ran.says("hint:");
}

#[test]
fn ids_are_listed_without_source() {
    let sandbox = converted();
    sandbox.write("own.txt", b"a b\xff");
    let ran = sandbox.inspect(&["tokenizer", "x.gguf", "--text", "own.txt"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    let texts: Vec<&str> = ran.stdout.lines().map(|line| line.split_once(' ').unwrap().1).collect();
    assert_eq!(texts[0], "\"a\"");
    let ids: Vec<u64> =
        ran.stdout.lines().map(|line| line.split_once(' ').unwrap().0.parse().unwrap()).collect();
    let json = sandbox.inspect(&words("tokenizer x.gguf --text own.txt --json")).json();
    assert_eq!((&json["text_bytes"], &json["ids"]), (&4.into(), &ids.into()));
}
