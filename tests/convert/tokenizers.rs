//! Tokenizers that are wrong, strange or in another place, through the built binary.

use std::fs;

use crate::common::{Output, Sandbox, golden, succeed};
use serde_json::{Value as Json, json};

/// The golden checkpoint, damaged, and what its conversion without weights said.
fn vocab_only(name: &str, damage: impl FnOnce(&Sandbox), more: &[&str]) -> (Sandbox, Output) {
    let sandbox = Sandbox::with_golden(name);
    damage(&sandbox);
    let ran = sandbox.convert(&[&[name, "out/x.gguf", "--vocab-only"], more].concat());
    (sandbox, ran)
}

/// It must be refused with these words, and nothing written.
fn refused(name: &str, damage: impl FnOnce(&Sandbox), words: &str) {
    let (sandbox, ran) = vocab_only(name, damage, &["-q"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""), "{}", ran.stderr);
    assert!(
        ran.stderr.starts_with(&format!("error: {name}: ")) && ran.stderr.contains(words),
        "{}",
        ran.stderr
    );
    assert!(sandbox.outputs().is_empty());
}

/// It must be converted with these words.
fn warned(name: &str, damage: impl FnOnce(&Sandbox), words: &str) -> Sandbox {
    let (sandbox, ran) = vocab_only(name, damage, &[]);
    ran.ends_and_says(0, words);
    sandbox
}

/// The value of a key in the file that was written.
fn value(sandbox: &Sandbox, key: &str) -> Json {
    let json = succeed(sandbox.inspect(&["show", "out/x.gguf", "--json"])).json();
    json["metadata"][key]["value"].clone()
}

const JSON: &str = "llama-llama3/tokenizer.json";
const CONFIG: &str = "llama-llama3/tokenizer_config.json";

#[test]
fn invalid_tokenizer_model() {
    let pointer = |sandbox: &Sandbox| {
        let text = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n";
        sandbox.write("llama/tokenizer.model", text);
    };
    refused("llama", pointer, "`tokenizer.model` is a Git LFS pointer, not the file itself");
    let other = |sandbox: &Sandbox| sandbox.write("llama/tokenizer.model", "a text\n");
    refused("llama", other, "`tokenizer.model`: not a SentencePiece model: ");
}

#[test]
fn templates_come_from_three_places() {
    let without = |sandbox: &Sandbox| {
        sandbox.edit_json(CONFIG, |json| drop(json.as_object_mut().unwrap().remove("chat_template")));
    };
    let template = |damage: &dyn Fn(&Sandbox)| {
        let (sandbox, ran) = vocab_only("llama-llama3", damage, &["-q"]);
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
        (value(&sandbox, "tokenizer.chat_template"), value(&sandbox, "tokenizer.chat_template.rag"))
    };
    let in_config = template(&|_| {}).0;
    assert!(in_config.as_str().unwrap().contains("m['role']"), "{in_config}");
    assert_eq!(template(&without), (Json::Null, Json::Null));
    let own_file = template(&|sandbox| {
        without(sandbox);
        sandbox.write("llama-llama3/chat_template.jinja", "own {{ messages }}");
        fs::create_dir(sandbox.path("llama-llama3/additional_chat_templates")).unwrap();
        sandbox.write("llama-llama3/additional_chat_templates/rag.jinja", "rag");
    });
    assert_eq!(own_file, (json!("own {{ messages }}"), json!("rag")));
    let in_json = template(&|sandbox| {
        without(sandbox);
        let json = json!({"chat_template": "json {{ messages }}"});
        sandbox.write("llama-llama3/chat_template.json", json.to_string());
    });
    assert_eq!(in_json.0, "json {{ messages }}");
}

/// Splits that no name of llama.cpp stands for.
fn strange(sandbox: &Sandbox) {
    sandbox.edit_json(JSON, |json| {
        json["pre_tokenizer"] = json!({"type": "Sequence", "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": r"\p{N}{1,2}"}, "behavior": "Isolated", "invert": false},
            {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true}]});
    });
}

#[test]
fn unknown_pre_tokenizer_suggests_nearest_and_override() {
    let (sandbox, ran) = vocab_only("llama-llama3", strange, &[]);
    assert_eq!(ran.code, Some(1));
    for words in [
        "error: llama-llama3: unknown pre-tokenizer: it splits by `\\p{N}{1,2}`, then `",
        "(token hash ",
        "; nearest known: `smollm`: this has `\\p{N}{1,2}`; `smollm` has `\\p{N}`\n",
        "\nhint: set it with `--pre NAME`, or ",
    ] {
        assert!(ran.stderr.contains(words), "{words}\n{}", ran.stderr);
    }
    assert!(sandbox.outputs().is_empty());
    let (sandbox, ran) = vocab_only("llama-llama3", strange, &["--pre", "smollm"]);
    ran.ends_and_says(0, "pre-tokenizer `smollm`: as specified; the tokenizer splits by ");
    assert_eq!(value(&sandbox, "tokenizer.ggml.pre"), "smollm");
    let (place, ran) = vocab_only("llama-llama3", strange, &["--pre", "nonsense"]);
    ran.says("warning: pre-tokenizer `nonsense`");
    let set = |value: &str| {
        let name = place.outputs().remove(0);
        place.inspect(&["set", &format!("out/{name}"), &format!("tokenizer.ggml.pre={value}")]).stderr
    };
    let warning = "warning: `tokenizer.ggml.pre`: llama.cpp does not support the pre-tokenizer `foo`\n";
    assert!(set("foo").contains(warning));
    assert!(!set("gpt-2").contains("warning"));
    let words = "as specified, but unknown to llama.cpp; nearest known: `";
    ran.says(words);
    let (_, ran) = vocab_only("llama-llama3", strange, &["--pre", "qwen-2"]);
    ran.says(&format!("{words}qwen2`, `"));
    // A kind of tokenizer without a choice is reported.
    let (place, ran) = vocab_only("llama", |_| {}, &["--pre", "foo"]);
    ran.says("pre-tokenizer `foo` was specified, but this kind of tokenizer does not have one");
    assert_eq!(value(&place, "tokenizer.ggml.pre"), "default");
}

#[test]
fn pre_tokenizer_evidence_is_a_detail() {
    let normalizes = |name: &'static str| {
        move |sandbox: &Sandbox| sandbox.edit_json(JSON, |json| json["normalizer"] = json!({ "type": name }))
    };
    let (_, ran) = vocab_only("llama-llama3", normalizes("NFC"), &["-v"]);
    let words = "note: pre-tokenizer `gpt-2`: by its expressions; unknown token hash ";
    let hash = ran.stderr.split(words).nth(1).and_then(|rest| rest.lines().next());
    assert!(hash.is_some_and(|hash| hash.len() == 64), "{}", ran.stderr);
    ran.says("note: the tokenizer normalizes text (NFC), but llama.cpp does not");
    // Neither needs action.
    let (_, ran) = vocab_only("llama-llama3", normalizes("NFC"), &[]);
    assert!(!ran.stderr.contains("note: "), "{}", ran.stderr);
    let (_, ran) = vocab_only("llama-llama3", normalizes("NFKC"), &[]);
    ran.says("note: the tokenizer normalizes text (NFKC), but llama.cpp does not");
}

#[test]
fn original_tokenizer_is_embedded_on_request() {
    let (sandbox, ran) = vocab_only("llama-llama3", |_| {}, &["-q", "--embed-tokenizer-json"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    let file = sandbox.text(JSON);
    assert_eq!(value(&sandbox, "tokenizer.huggingface.json"), file);
    let (sandbox, _) = vocab_only("llama-llama3", |_| {}, &["-q"]);
    assert_eq!(value(&sandbox, "tokenizer.huggingface.json"), Json::Null);
}

/// Replit's checkpoints are an MPT with a SentencePiece model under another name.
#[test]
fn replit_tokenizer_file_is_found() {
    let replit = |sandbox: &Sandbox| {
        fs::remove_file(sandbox.path("mpt/tokenizer.json")).unwrap();
        fs::copy(golden("arch-tokenizers/unigram-t5/spiece.model"), sandbox.path("mpt/spiece.model"))
            .unwrap();
    };
    let (sandbox, ran) = vocab_only("mpt", replit, &["-q"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    for (key, stated) in [
        ("tokenizer.ggml.model", json!("llama")),
        ("tokenizer.ggml.add_bos_token", json!(false)),
        ("tokenizer.ggml.padding_token_id", json!(3)),
        ("tokenizer.ggml.eos_token_id", json!(1)),
        ("tokenizer.ggml.unknown_token_id", json!(0)),
    ] {
        assert_eq!(value(&sandbox, key), stated, "{key}");
    }
}

/// A llama tokenizer with only tokenizer.json has the ids of its files, unless the scores of the reference are requested.
#[test]
fn scores_are_made_from_merges() {
    let json_only = |sandbox: &Sandbox| {
        fs::remove_file(sandbox.path("llama/tokenizer.model")).unwrap();
        for file in ["tokenizer.json", "tokenizer_config.json"] {
            fs::copy(golden("tokenizer/json-llama2").join(file), sandbox.path("llama").join(file)).unwrap();
        }
    };
    let (sandbox, ran) = vocab_only("llama", json_only, &["--equal-scores"]);
    ran.ends_and_says(0, "warning: `tokenizer.json` has no scores, and all tokens get the same one");
    let scores = value(&sandbox, "tokenizer.ggml.scores");
    assert!(scores.as_array().unwrap().iter().all(|score| *score == -1000.0), "{scores}");
    let sandbox =
        warned("llama", json_only, "using the vocabulary of `tokenizer.json`, with scores from its merges");
    let ran = sandbox.inspect(&["tokenizer", "out/x.gguf", "--against", "llama"]);
    assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
    assert!(ran.stdout.contains("\ndiffering   0\nllama.cpp   0 differing\n"), "{}", ran.stdout);
}

/// Ours has other words than the reference's template, and makes the same of dialogs.
#[test]
fn rwkv_template_matches_reference_dialogs() {
    let sandbox = Sandbox::with_golden("rwkv7");
    sandbox.edit_json("rwkv7/tokenizer_config.json", |json| {
        json.as_object_mut().unwrap().remove("chat_template");
    });
    let ran = sandbox.convert(&["vocab", "rwkv7", "out/x.gguf", "-q"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    let template = value(&sandbox, "tokenizer.chat_template");
    let cases = fs::read(golden("tokenizer/rwkv-template.json")).unwrap();
    let cases: Vec<Json> = serde_json::from_slice(&cases).unwrap();
    assert_eq!(cases.len(), 5);
    for case in cases {
        let messages: Vec<(String, String)> = serde_json::from_value(case["messages"].clone()).unwrap();
        let messages: Vec<(&str, &str)> = messages.iter().map(|(who, what)| (&who[..], &what[..])).collect();
        let made = gguf_runtime::chat::prompt(template.as_str(), &messages, "<s>", "<s>").unwrap();
        assert_eq!(made, case["prompt"], "{messages:?}");
    }
}
