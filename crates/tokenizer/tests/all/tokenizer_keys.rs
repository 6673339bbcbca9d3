//! Messages about contradictory tokenizer keys.

use gguf_container::{Array, Metadata, Value};
use gguf_tokenizer::{Error, Reading, Tokenizer};

fn texts(items: &[&str]) -> Value {
    Value::Array(Array::String(items.iter().collect()))
}

fn bpe() -> Metadata {
    Metadata::from([
        ("tokenizer.ggml.model".into(), Value::from("gpt2")),
        ("tokenizer.ggml.pre".into(), Value::from("gpt-2")),
        ("tokenizer.ggml.tokens".into(), texts(&["a", "b", "ab", "<|end|>", "\u{120}", "\u{120}a"])),
        ("tokenizer.ggml.token_type".into(), Value::Array(Array::I32(vec![1, 1, 1, 3, 1, 1]))),
        ("tokenizer.ggml.merges".into(), texts(&["a b", "\u{120} a"])),
        ("tokenizer.ggml.eos_token_id".into(), Value::U32(3)),
    ])
}

fn spm() -> Metadata {
    Metadata::from([
        ("tokenizer.ggml.model".into(), Value::from("llama")),
        ("tokenizer.ggml.tokens".into(), texts(&["<unk>", "<s>", "</s>", "\u{2581}a"])),
        ("tokenizer.ggml.scores".into(), Value::Array(Array::F32(vec![0.0, 0.0, 0.0, -1.0]))),
        ("tokenizer.ggml.token_type".into(), Value::Array(Array::I32(vec![2, 3, 3, 1]))),
    ])
}

/// Error of both readings after one key was changed or removed.
fn error(mut keys: Metadata, key: &str, value: Option<Value>) -> String {
    let both = [Reading::Model, Reading::LlamaCpp].map(|reading| {
        keys.remove(key);
        keys.extend(value.clone().map(|value| (key.to_owned(), value)));
        refused(&keys, reading).unwrap().to_string()
    });
    assert_eq!(both[0], both[1]);
    both[0].clone()
}

fn refused(keys: &Metadata, reading: Reading) -> Option<Error> {
    Tokenizer::from_gguf(keys).encoder(reading).err()
}

#[test]
fn unchanged_keys_are_valid() {
    for keys in [bpe(), spm()] {
        for reading in [Reading::Model, Reading::LlamaCpp] {
            assert_eq!(refused(&keys, reading), None);
        }
    }
    let tokenizer = Tokenizer::from_gguf(&bpe()).encoder(Reading::LlamaCpp).unwrap();
    assert_eq!(tokenizer.encode("ab a", false, false).unwrap(), [2, 5]);
}

#[test]
fn missing_and_mistyped_keys_are_refused() {
    for key in ["tokenizer.ggml.model", "tokenizer.ggml.tokens", "tokenizer.ggml.merges"] {
        assert_eq!(error(bpe(), key, None), format!("missing metadata key `{key}`"));
    }
    for (key, expected) in [
        ("tokenizer.ggml.model", "text"),
        ("tokenizer.ggml.pre", "text"),
        ("tokenizer.ggml.tokens", "a list of texts"),
        ("tokenizer.ggml.merges", "a list of texts"),
        ("tokenizer.ggml.token_type", "a list of i32"),
        ("tokenizer.ggml.scores", "a list of f32 or i32"),
        ("tokenizer.ggml.add_bos_token", "a boolean"),
    ] {
        let expected = format!("metadata key `{key}`: expected {expected}, found 1");
        assert_eq!(error(bpe(), key, Some(Value::U32(1))), expected);
    }
    let unknown = error(bpe(), "tokenizer.ggml.model", Some(Value::from("hybriddna")));
    assert_eq!(unknown, "tokenizer model `hybriddna`: not supported");
    let unknown = error(bpe(), "tokenizer.ggml.pre", Some(Value::from("nonsense")));
    assert_eq!(unknown, "pre-tokenizer `nonsense` is unknown to llama.cpp");
}

#[test]
fn lists_of_wrong_length_are_refused() {
    let short = |key, value| error(spm(), key, Some(Value::Array(value)));
    assert_eq!(
        short("tokenizer.ggml.scores", Array::F32(vec![0.0; 3])),
        "`tokenizer.ggml.scores`: expected 4 entries, one per token, found 3"
    );
    assert_eq!(
        short("tokenizer.ggml.token_type", Array::I32(vec![1])),
        "`tokenizer.ggml.token_type`: expected 4 entries, one per token, found 1"
    );
}

#[test]
fn nan_scores_are_refused() {
    let scores = Value::Array(Array::F32(vec![0.0, 0.0, 0.0, f32::NAN]));
    assert_eq!(
        error(spm(), "tokenizer.ggml.scores", Some(scores)),
        "`tokenizer.ggml.scores`: the score of token 3 (`\u{2581}a`) is NaN"
    );
}

#[test]
fn invalid_merges_are_refused() {
    assert_eq!(
        error(bpe(), "tokenizer.ggml.merges", Some(texts(&["a b", "ab"]))),
        "`tokenizer.ggml.merges`: merge 1: expected two tokens, found `ab`"
    );
    let mut keys = bpe();
    keys.remove("tokenizer.ggml.merges");
    keys.set("tokenizer.ggml.merges", texts(&["a b", "b a"]));
    assert_eq!(
        refused(&keys, Reading::Model).unwrap().to_string(),
        "`tokenizer.ggml.merges`: merge 1 (`b a`) needs token `ba`, which is not in the vocabulary"
    );
    // llama.cpp joins texts, and splits unknown results into characters again.
    let tokenizer = Tokenizer::from_gguf(&keys).encoder(Reading::LlamaCpp).unwrap();
    assert_eq!(tokenizer.encode("ba", false, false).unwrap(), [1, 0]);
}

#[test]
fn special_ids_beyond_vocabulary_are_refused() {
    for name in ["bos", "eos", "unknown", "seperator"] {
        let key = format!("tokenizer.ggml.{name}_token_id");
        let mut keys = bpe();
        keys.remove(&key);
        keys.set(key.clone(), Value::U32(6));
        assert_eq!(
            refused(&keys, Reading::Model).unwrap().to_string(),
            format!("`{key}`: 6 is out of range for 6 tokens")
        );
        // llama.cpp ignores it.
        assert_eq!(refused(&keys, Reading::LlamaCpp), None, "{key}");
    }
}

#[test]
fn duplicate_tokens_are_refused() {
    assert_eq!(
        error(bpe(), "tokenizer.ggml.tokens", Some(texts(&["a", "b", "ab", "x", "\u{120}", "b"]))),
        "duplicate token `b` (ids 1 and 5)"
    );
}

#[test]
fn unused_unknown_pre_tokenizer_is_reported() {
    let mut keys = spm();
    assert_eq!(Tokenizer::from_gguf(&keys).encoder(Reading::LlamaCpp).unwrap().unknown_pre(), None);
    keys.set("tokenizer.ggml.pre", "foo");
    assert_eq!(Tokenizer::from_gguf(&keys).encoder(Reading::LlamaCpp).unwrap().unknown_pre(), Some("foo"));
    keys.set("tokenizer.ggml.pre", "default");
    assert_eq!(Tokenizer::from_gguf(&keys).encoder(Reading::LlamaCpp).unwrap().unknown_pre(), None);
}

#[test]
fn added_tokens_need_an_id() {
    let mut keys = bpe();
    keys.set("tokenizer.ggml.add_bos_token", true);
    let tokenizer = Tokenizer::from_gguf(&keys).encoder(Reading::LlamaCpp).unwrap();
    let error = tokenizer.encode("a", true, false).unwrap_err();
    assert_eq!(
        error.to_string(),
        "missing metadata key `tokenizer.ggml.bos_token_id` of a token that must be added"
    );
}

#[test]
fn plamo_requires_all_byte_tokens() {
    let mut keys = spm();
    keys.set("tokenizer.ggml.model", "plamo2");
    assert_eq!(refused(&keys, Reading::Model).unwrap().to_string(), "missing token for byte 0x00");
}

/// Source: `llama_vocab::impl::load` of llama.cpp b11312.
#[test]
fn end_tokens_follow_keys_and_texts() {
    let ends = |tokens: &[&str], further: &[(&str, u32)]| {
        let mut keys = bpe();
        let all: Vec<&str> =
            ["a", "b", "ab", "\u{120}", "\u{120}a", "e"].iter().chain(tokens).copied().collect();
        keys.set("tokenizer.ggml.token_type", Value::Array(Array::I32(vec![1; all.len()])));
        keys.set("tokenizer.ggml.tokens", texts(&all));
        keys.set("tokenizer.ggml.eos_token_id", Value::U32(5));
        keys.extend(further.iter().map(|(key, id)| (format!("tokenizer.ggml.{key}"), Value::U32(*id))));
        Tokenizer::from_gguf(&keys).encoder(Reading::LlamaCpp).unwrap().ends()
    };
    assert_eq!(ends(&["x"], &[]), [5]);
    assert_eq!(ends(&["x", "y"], &[("eot_token_id", 6), ("eom_token_id", 7)]), [5, 6, 7]);
    assert_eq!(ends(&["<turn|>", "<|fim_pad|>", "<|fim_prefix|>", "[e~["], &[]), [5, 6, 7, 9]);
    assert_eq!(ends(&["<|end|>"], &[]), [5, 6]);
    assert_eq!(ends(&["<|end|>", "<|return|>", "<|call|>"], &[]), [5, 7, 8]);
    assert_eq!(ends(&["<|end|>", "<|flush|>", "<|calls|>"], &[]), [5, 7, 8]);
    assert_eq!(ends(&["</s>", "<|tool_response>"], &[]), [5, 7]);
}
