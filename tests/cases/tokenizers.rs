//! Tokenizer files that contradict each other, special tokens, and tokenizer.json as a hostile program. Expected ids and types are
//! those of transformers 5.24 and of the source of llama.cpp.

use std::time::Instant;

use serde_json::{Value as Json, json};

use crate::common::{Output, Sandbox, succeed, verify};

/// Keys of the vocabulary of a checkpoint, and the messages of its conversion.
struct Vocab {
    keys: Json,
    stderr: String,
}

impl Vocab {
    fn key(&self, name: &str) -> &Json {
        &self.keys[format!("tokenizer.ggml.{name}")]["value"]
    }

    fn token(&self, id: usize) -> (&str, i64) {
        (
            self.key("tokens")[id].as_str().unwrap_or_default(),
            self.key("token_type")[id].as_i64().unwrap_or(0),
        )
    }

    #[track_caller]
    fn says(&self, text: &str) {
        assert!(self.stderr.contains(text), "`{text}` is not in {}", self.stderr);
    }
}

/// The vocabulary of `golden/arch/NAME` after a change, with further arguments.
#[track_caller]
fn vocab_with(name: &str, more: &[&str], change: impl FnOnce(&Sandbox)) -> Vocab {
    let sandbox = Sandbox::with_golden(name);
    change(&sandbox);
    let args = [&[name, "out/x.gguf", "--vocab-only"], more].concat();
    let stderr = succeed(sandbox.convert(&args)).stderr;
    let shown = succeed(sandbox.inspect(&["show", "out/x.gguf", "--json"])).json();
    Vocab { keys: shown["metadata"].clone(), stderr }
}

#[track_caller]
fn vocab(name: &str, change: impl FnOnce(&Sandbox)) -> Vocab {
    vocab_with(name, &[], change)
}

/// Changes a JSON file of a checkpoint; a null removes a key.
fn set(sandbox: &Sandbox, file: &str, values: &[(&str, Json)]) {
    if !sandbox.path(file).exists() {
        sandbox.write(file, "{}");
    }
    sandbox.edit_json(file, |json| {
        let object = json.as_object_mut().unwrap();
        for (key, value) in values {
            match value {
                Json::Null => drop(object.remove(*key)),
                value => drop(object.insert((*key).to_owned(), value.clone())),
            }
        }
    });
}

fn added(id: usize, content: &str, special: bool) -> Json {
    json!({ "id": id, "content": content, "special": special, "normalized": false })
}

const BPE: &str = "llama-llama3";
const BPE_JSON: &str = "llama-llama3/tokenizer.json";
const BPE_CONFIG: &str = "llama-llama3/tokenizer_config.json";

const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

#[test]
fn special_pieces_of_tokenizer_json_get_their_types() {
    let before = vocab("gemma2", |_| {});
    let (mark, text) = (before.token(300).0.to_owned(), before.token(301).0.to_owned());
    assert_eq!((before.token(300).1, before.token(301).1), (1, 1));
    let json = json!({
        "added_tokens": [added(300, &mark, true), added(301, &text, false)],
        "model": { "type": "BPE", "vocab": {}, "merges": [] },
    });
    let after = vocab("gemma2", |sandbox| sandbox.write("gemma2/tokenizer.json", json.to_string()));
    after.says("added tokens of tokenizer.json that `tokenizer.model` has as ordinary pieces or not at all");
    assert_eq!(after.token(300), (mark.as_str(), 3));
    assert_eq!(after.token(301), (text.replace('\u{2581}', " ").as_str(), 4));
}

/// Qwen2Tokenizer takes the tokens of tokenizer_config.json, TokenizersBackend those of tokenizer.json.
#[test]
fn renamed_tokens_keep_the_ids_of_transformers() {
    let convert = |class: &str, json_name: &str, config_name: &str| {
        vocab(BPE, |sandbox| {
            sandbox.edit_json(BPE_JSON, |json| {
                json["added_tokens"].as_array_mut().unwrap().push(added(380, json_name, true));
            });
            let listed = json!({ "0": added(0, "<|unk|>", true), "1": added(1, "<|begin|>", true),
                "2": added(2, "<|end|>", true), "380": added(380, config_name, true) });
            set(sandbox, BPE_CONFIG, &[("tokenizer_class", json!(class)), ("added_tokens_decoder", listed)]);
        })
    };
    for (class, first, second) in
        [("Qwen2Tokenizer", "<action>", 0), ("TokenizersBackend", "<reserved>", 381)]
    {
        let found = convert(class, "<reserved>", "<action>");
        assert_eq!(found.token(380), (first, 3), "{class}");
        if second > 0 {
            assert_eq!(found.token(second), ("<action>", 3), "{class}");
        }
        found.says("warning: the tokenizer files contradict each other: id 380 is");
        // Equal names do not contradict each other.
        let agreed = convert(class, "<action>", "<action>");
        assert!(!agreed.stderr.contains("contradict"), "{class}: {}", agreed.stderr);
    }
}

#[test]
fn special_tokens_of_both_lists_are_added() {
    let found = vocab(BPE, |sandbox| {
        let extra = [
            ("extra_special_tokens", json!({ "image_token": "<image>" })),
            ("additional_special_tokens", json!(["<tool>"])),
        ];
        set(sandbox, BPE_CONFIG, &extra);
    });
    assert_eq!((found.token(380), found.token(381)), (("<image>", 3), ("<tool>", 3)));
}

#[test]
fn eos_is_found_in_every_form() {
    let without = |sandbox: &Sandbox| set(sandbox, BPE_CONFIG, &[("eos_token", Json::Null)]);
    let config = "llama-llama3/config.json";
    let generation = "llama-llama3/generation_config.json";
    for (file, stated) in [(config, json!([2, 1])), (generation, json!([2, 1])), (generation, json!(2))] {
        let found = vocab(BPE, |sandbox| {
            without(sandbox);
            set(sandbox, config, &[("eos_token_id", Json::Null)]);
            set(sandbox, file, &[("eos_token_id", stated.clone())]);
        });
        assert_eq!(found.key("eos_token_id"), 2, "{file}");
        let second = if stated.is_array() { json!(1) } else { Json::Null };
        assert_eq!(*found.key("eot_token_id"), second, "{file}");
    }
    // llama.cpp's default for byte-level BPE is id 11 (`special_eos_id` in src/llama-vocab.cpp).
    let found = vocab(BPE, |sandbox| {
        without(sandbox);
        set(sandbox, config, &[("eos_token_id", Json::Null)]);
    });
    found.says(
        "missing metadata key `tokenizer.ggml.eos_token_id`: llama.cpp uses token 11 (`)`), which is ordinary text, \
         so every answer ends at the first `)`",
    );
}

#[test]
fn negative_ids_mean_no_token() {
    for (key, level) in [("pad", "note"), ("unk", "note"), ("bos", "warning"), ("eos", "warning")] {
        let found = vocab(BPE, |sandbox| {
            set(sandbox, BPE_CONFIG, &[(&format!("{key}_token"), Json::Null)]);
            set(sandbox, "llama-llama3/config.json", &[(&format!("{key}_token_id"), json!(-1))]);
        });
        found.says(&format!("{level}: `config.json`: `{key}_token_id` is -1, not a token id: omitted"));
        assert_eq!(*found.key(&format!("{key}_token_id")), Json::Null);
    }
}

/// llama.cpp adds BOS by default for SentencePiece and for `llama-bpe`; transformers follows the post-processor of tokenizer.json.
#[test]
fn unwanted_bos_is_switched_off() {
    let template = json!({ "type": "TemplateProcessing", "single": [{ "Sequence": { "id": "A", "type_id": 0 } }],
        "pair": [], "special_tokens": {} });
    for processor in [Json::Null, template] {
        let found = vocab(BPE, |sandbox| {
            sandbox.edit_json(BPE_JSON, |json| {
                json["post_processor"] = processor.clone();
                json["model"]["ignore_merges"] = json!(true);
                json["pre_tokenizer"] = json!({ "type": "Sequence", "pretokenizers": [
                    { "type": "Split", "pattern": { "Regex": LLAMA3 }, "behavior": "Isolated", "invert": false },
                    { "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false },
                ] });
            });
        });
        assert_eq!((found.key("pre"), found.key("add_bos_token")), (&json!("llama-bpe"), &json!(false)));
        let found = vocab("llama", |sandbox| {
            set(sandbox, "llama/tokenizer_config.json", &[("add_bos_token", Json::Null)]);
            let json = json!({ "added_tokens": [], "model": { "type": "BPE", "vocab": {}, "merges": [] },
                "post_processor": processor });
            sandbox.write("llama/tokenizer.json", json.to_string());
        });
        assert_eq!(found.key("add_bos_token"), false);
    }
    let chosen = vocab_with(BPE, &["--pre", "llama-bpe"], |_| {});
    chosen.says("tokenizer.json does not add BOS, but llama.cpp does by default: set `tokenizer.ggml.add_bos_token` to false");
    // Without tokenizer.json, nothing is known.
    let found = vocab("llama", |sandbox| {
        set(sandbox, "llama/tokenizer_config.json", &[("add_bos_token", Json::Null)]);
    });
    assert_eq!(*found.key("add_bos_token"), Json::Null);
}

#[test]
fn tokenizer_of_another_model_is_reported() {
    let text = "the tokenizer has 100 tokens for 384 rows of the embedding";
    let found = vocab(BPE, |sandbox| {
        sandbox.edit_json(BPE_JSON, |json| {
            let vocab = json["model"]["vocab"].as_object_mut().unwrap();
            vocab.retain(|_, id| id.as_u64().unwrap() < 100);
            json["model"]["merges"] = json!([]);
        });
    });
    found.says(text);
}

#[test]
fn options_of_bert_tokenizers_win() {
    for (lower, own) in [(false, true), (true, false)] {
        let found = vocab("bert", |sandbox| {
            sandbox.edit_json("bert/tokenizer.json", |json| json["normalizer"]["lowercase"] = json!(own));
            set(sandbox, "bert/tokenizer_config.json", &[("do_lower_case", json!(lower))]);
        });
        assert_eq!(*found.key("normalizer.lowercase"), json!(lower));
        found.says(&format!(
            "warning: `do_lower_case` is {lower} in tokenizer_config.json, but `lowercase` is {own}"
        ));
    }
}

#[test]
fn differences_without_a_key_are_reported() {
    let marks = |legacy: bool| {
        vocab("llama", |sandbox| {
            sandbox.edit_json("llama/tokenizer_config.json", |json| {
                json["added_tokens_decoder"]["383"] = added(383, "<|im_start|>", true);
                (json["tokenizer_class"], json["legacy"]) = (json!("LlamaTokenizer"), json!(legacy));
            });
        })
    };
    let text = "llama.cpp puts a space before text that follows a special token, but transformers does not: text after \
                `<|im_start|>` is tokenized differently";
    marks(false).says(text);
    assert!(!marks(true).stderr.contains(text));
    let found = vocab(BPE, |sandbox| {
        sandbox.edit_json(BPE_JSON, |json| {
            json["normalizer"] = json!({ "type": "NFC" });
            let token = json!({ "id": 380, "content": "e\u{301}", "normalized": true, "special": false });
            json["added_tokens"].as_array_mut().unwrap().push(token);
        });
    });
    found.says("warning: added tokens with decomposed characters");
}

/// A model whose special tokens or pre-tokenizer are doubtful is reported by all programs that tokenize with it.
#[test]
fn doubtful_tokenizers_are_reported_by_every_program() {
    let sandbox = Sandbox::with_converted(BPE, "in.gguf", "f32");
    sandbox.add_text();
    succeed(sandbox.inspect(&["unset", "in.gguf", "tokenizer.ggml.pre", "--output", "old.gguf"]));
    let changed = succeed(sandbox.inspect(&[
        "set",
        "in.gguf",
        "tokenizer.ggml.eos_token_id=64",
        "tokenizer.ggml.bos_token_id=11",
        "--output",
        "bad.gguf",
    ]));
    let old = "missing metadata key `tokenizer.ggml.pre`: text is split by the default pre-tokenizer";
    let bad = "`tokenizer.ggml.eos_token_id`: token 64 (`";
    changed.says(bad);
    for (file, text) in [("old.gguf", old), ("bad.gguf", bad)] {
        let (code, codes, report) = verify(&sandbox, &[file, "--only", "tokenizer", "--strict"]);
        assert_eq!(code, Some(1), "{report}");
        assert!(codes.contains(if file == "old.gguf" { "pre" } else { "special_ordinary" }), "{report}");
        for args in [
            &["perplexity", file, "--text", "text", "-c", "16", "--chunks", "1"][..],
            &[
                "imatrix", file, "--text", "text", "-c", "16", "--chunks", "1", "--output", "m.gguf",
                "--force",
            ],
            &["generate", file, "--prompt", "a", "--tokens", "1"],
        ] {
            succeed(sandbox.eval(args)).says(text);
        }
    }
    let args =
        ["old.gguf", "q.gguf", "q8_0", "--calibrate", "text", "--calibration-tokens", "2048", "--no-verify"];
    sandbox.quantize(&args).says(old);
}

/// llama-completion and llama-embedding read special tokens in a prompt (`common_tokenize` with `parse_special`).
#[test]
fn special_tokens_in_prompts_are_read() {
    let sandbox = Sandbox::with_converted("llama", "in.gguf", "f32");
    let n_tokens = |more: &[&str]| {
        let args = ["embed", "in.gguf", "--pooling", "last", "--json", "--prompt", "<unk></s>"];
        succeed(sandbox.eval(&[&args, more].concat())).json()["texts"][0]["tokens"].clone()
    };
    // BOS and the two tokens.
    assert_eq!(n_tokens(&[]), 3);
    assert!(n_tokens(&["--plain"]).as_u64().unwrap() > 3);
    let after = |more: &[&str]| {
        let args = ["generate", "in.gguf", "--tokens", "1", "--prompt", "<unk></s>"];
        succeed(sandbox.eval(&[&args, more].concat())).stderr
    };
    assert!(after(&[]).contains("tokens after 3 in"), "{}", after(&[]));
    assert!(!after(&["--plain"]).contains("tokens after 3 in"));
}

/// The checkpoint `llama-llama3` with a hostile tokenizer.json.
fn hostile(change: impl FnOnce(&mut Json)) -> (Sandbox, Output, Output) {
    let sandbox = Sandbox::with_converted(BPE, "ok.gguf", "f32");
    sandbox.edit_json(BPE_JSON, change);
    let begin = Instant::now();
    let converted = sandbox.convert(&[BPE, "out/x.gguf", "--vocab-only"]);
    let compared = sandbox.inspect(&["tokenizer", "ok.gguf", "--against", BPE]);
    assert!(begin.elapsed().as_secs() < 60, "{:?}", begin.elapsed());
    (sandbox, converted, compared)
}

#[test]
fn hostile_tokenizers_are_errors() {
    let charsmap = |table: &'static str| {
        move |json: &mut Json| {
            json["normalizer"] = json!({ "type": "Precompiled", "precompiled_charsmap": table })
        }
    };
    let grow = |json: &mut Json| {
        let step = json!({ "type": "Replace", "pattern": { "String": "a" }, "content": "aa" });
        json["normalizer"] = json!({ "type": "Sequence", "normalizers": vec![step; 60] });
    };
    let nest = |json: &mut Json| {
        let expression = format!("{}a{}", "(".repeat(20_000), ")".repeat(20_000));
        json["pre_tokenizer"] = json!({ "type": "Split", "pattern": { "Regex": expression }, "behavior": "Isolated", "invert": false });
    };
    let prefix =
        |json: &mut Json| json["model"]["continuing_subword_prefix"] = json!("\u{e9}\u{e9}\u{e9}\u{e9}");
    let post = |json: &mut Json| {
        json["post_processor"] = json!({ "type": "TemplateProcessing", "pair": [], "special_tokens": {},
            "single": [{ "SpecialToken": { "id": "x", "type_id": 0 } }] });
    };
    // The length of the trie is larger than the file; the units of the trie are 255.
    let units = "AAQAAP".to_owned() + &"/".repeat(1000);
    let units: &'static str = units.leak();
    type Case<'a> = (&'a str, Box<dyn Fn(&mut Json)>);
    let cases: [Case<'_>; 8] = [
        ("list", Box::new(|json: &mut Json| *json = json!([[]]))),
        ("short", Box::new(charsmap("AQ=="))),
        ("length", Box::new(charsmap("/////wAAAAAAAAAA"))),
        ("units", Box::new(charsmap(units))),
        ("grow", Box::new(grow)),
        ("nest", Box::new(nest)),
        ("prefix", Box::new(prefix)),
        ("post", Box::new(post)),
    ];
    for (name, change) in cases {
        let (_sandbox, converted, compared) = hostile(change);
        for ran in [&converted, &compared] {
            assert!(ran.code == Some(0) || ran.code == Some(1), "{name}: {ran:?}");
            assert!(!ran.stderr.contains("panicked"), "{name}: {}", ran.stderr);
        }
        compared.ends_and_begins(1, "error: llama-llama3/tokenizer.json: ");
    }
}

/// The library reads a table of replacements of SentencePiece, so a valid one must pass the checks before it.
#[test]
fn valid_table_of_replacements_is_compared() {
    let sandbox = Sandbox::with_converted("xlm-roberta", "in.gguf", "f32");
    let normalizer = sandbox.json("xlm-roberta/tokenizer.json")["normalizer"].to_string();
    assert!(normalizer.contains("precompiled_charsmap"), "{normalizer}");
    let ran = sandbox.inspect(&["tokenizer", "in.gguf", "--against", "xlm-roberta"]);
    assert!(ran.stdout.contains("\nids  "), "{}{}", ran.stdout, ran.stderr);
}
