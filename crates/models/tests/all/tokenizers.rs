//! Tokenizers equal those of the reference; invalid ones are refused with the reason.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use gguf_container::{Array, Strings, Value};
use gguf_tokenizer::huggingface::{self, Route, Vocab, VocabError};
use gguf_tokenizer::{Tokenizer, TokenizerFiles, keys};
use serde_json::{Value as Json, json};

/// A route, and what else determines the keys.
#[derive(Default)]
struct VocabContext {
    route: Route,
    other: huggingface::VocabContext,
}

impl std::ops::Deref for VocabContext {
    type Target = huggingface::VocabContext;

    fn deref(&self) -> &huggingface::VocabContext {
        &self.other
    }
}

impl std::ops::DerefMut for VocabContext {
    fn deref_mut(&mut self) -> &mut huggingface::VocabContext {
        &mut self.other
    }
}

fn route(name: &str) -> Route {
    gguf_models::routes().into_iter().find(|route| route.name == name).unwrap()
}

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden/tokenizer")
}

/// A folder's small files, as the caller that opens checkpoints provides them.
struct Folder {
    files: BTreeMap<String, Vec<u8>>,
}

impl Folder {
    fn open(path: &Path) -> Self {
        let name = path.file_name().unwrap().to_str().unwrap();
        Folder { files: gguf_testkit::tokenizer_files(name) }
    }

    fn json(&self, file: &str) -> Json {
        serde_json::from_slice(&self.files[file]).unwrap()
    }

    fn edit(&mut self, file: &str, change: impl FnOnce(&mut Json)) {
        let mut json = self.json(file);
        change(&mut json);
        self.files.insert(file.to_owned(), json.to_string().into_bytes());
    }

    fn metadata(&self, ctx: &VocabContext) -> Result<Vocab, VocabError> {
        let config = self.json("config.json");
        let files: Vec<_> = self.files.iter().map(|(name, bytes)| (name.clone(), bytes.as_slice())).collect();
        let input = TokenizerFiles { config: &config, generation_config: None, files: &files };
        Tokenizer::from_huggingface(&input, ctx.route, ctx)
    }

    /// As the golden's `expected.json` and config say; no name for the pre-tokenizer.
    fn context(&self) -> VocabContext {
        let expected = self.json("expected.json");
        let route = route(expected["route"].as_str().unwrap());
        let type_vocab_size = self.json("config.json")["type_vocab_size"].as_u64();
        let vocab_size = self.json("config.json")["vocab_size"].as_u64();
        let other = huggingface::VocabContext {
            vocab_size,
            embedding_rows: vocab_size,
            type_vocab_size,
            equal_scores: true,
            // Recognized by the hash of the released tokenizer only.
            pre: (expected["pre"] == "mmbert").then(|| "mmbert".to_owned()),
            ..huggingface::VocabContext::default()
        };
        VocabContext { route, other }
    }
}

/// Goldens whose `pre` needs `--pre`: without `ignore_merges`, the expressions of Llama 3 are `smaug-bpe`.
fn own_pre(name: &str) -> Option<&'static str> {
    ["bpe-eot", "bpe-spaces"].contains(&name).then_some("smaug-bpe")
}

#[test]
fn vocabularies_match_goldens() {
    let mut n_seen = 0;
    for entry in fs::read_dir(golden()).unwrap() {
        let path = entry.unwrap().path();
        if !path.is_dir() {
            continue;
        }
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let folder = Folder::open(&path);
        let vocab = folder.metadata(&folder.context()).unwrap_or_else(|error| panic!("{name}: {error}"));
        let converted: Vec<Json> = vocab
            .tokenizer
            .to_gguf()
            .iter()
            .map(|(key, value)| {
                let (kind, value) = gguf_testkit::golden_value(value);
                let forced = own_pre(&name).filter(|_| key == keys::PRE);
                if let Some(own) = forced {
                    assert_eq!(value, own, "{name}");
                    return json!([key, kind, "llama-bpe"]);
                }
                json!([key, kind, value])
            })
            .collect();
        let expected = folder.json("expected.json");
        let expected = expected["metadata"].as_array().unwrap();
        for (at, (found, want)) in converted.iter().zip(expected).enumerate() {
            assert_eq!(found, want, "{name}, key {at}; notes: {:#?}", vocab.notes);
        }
        assert_eq!(converted.len(), expected.len(), "{name}: {:?}", converted.last());
        n_seen += 1;
    }
    assert_eq!(n_seen, 41, "a golden was added or lost");
}

/// The error of a golden that was changed.
fn error_of(name: &str, change: impl FnOnce(&mut Folder, &mut VocabContext)) -> String {
    let mut folder = Folder::open(&golden().join(name));
    let mut ctx = folder.context();
    change(&mut folder, &mut ctx);
    match folder.metadata(&ctx) {
        Ok(vocab) => panic!("{name}: no error, but {:?}", vocab.notes),
        Err(error) => error.to_string(),
    }
}

/// The notes and details of a golden that was changed.
fn notes_of(name: &str, change: impl FnOnce(&mut Folder, &mut VocabContext)) -> String {
    let mut folder = Folder::open(&golden().join(name));
    let mut ctx = folder.context();
    change(&mut folder, &mut ctx);
    let vocab = folder.metadata(&ctx).unwrap();
    [vocab.warnings, vocab.notes, vocab.details].concat().join("\n")
}

fn assert_has(text: &str, part: &str) {
    assert!(text.contains(part), "`{text}` lacks `{part}`");
}

#[test]
fn vocabularies_larger_than_config_or_embedding() {
    let error = error_of("bpe-gpt2", |_, ctx| ctx.vocab_size = Some(300));
    assert_eq!(error, "token `<|endoftext|>` has id 300, but the config's `vocab_size` is 300");
    let error = error_of("bpe-llama3", |_, ctx| ctx.embedding_rows = Some(311));
    // The last token is a filler, which has no name in the checkpoint.
    assert_eq!(error, "the vocabulary has 312 tokens, but the token embedding has 311 rows");
    let error = error_of("spm-llama2", |_, ctx| ctx.embedding_rows = Some(383));
    assert_eq!(
        error,
        "the vocabulary has 384 tokens, but the token embedding has 383 rows; tokens without a row: `п`"
    );
    let error = error_of("json-llama2-added", |_, ctx| ctx.vocab_size = Some(385));
    assert_eq!(error, "token `plain` has id 385, but the config's `vocab_size` is 385");
    for name in ["bpe-gpt2", "spm-llama2"] {
        let error = error_of(name, |_, ctx| (ctx.vocab_size, ctx.embedding_rows) = (Some(u64::MAX), None));
        assert_has(&error, "`vocab_size` 18446744073709551615 is more than");
    }
}

#[test]
fn plamo_needs_its_class_and_end_of_turn() {
    let edit = |json: &mut Json| json["tokenizer_class"] = json!("PreTrainedTokenizerFast");
    let error = error_of("plamo3", |folder, _| folder.edit("tokenizer_config.json", edit));
    assert_has(&error, "`tokenizer_class` is neither `Plamo2Tokenizer` nor `Plamo3Tokenizer`");
    // PLaMo 2 ends turns with another token than PLaMo 3.
    let error = error_of("plamo2", |_, ctx| ctx.route = route("plamo3"));
    assert_has(&error, "no token `<|plamo:tag|>`, which ends a turn");
}

#[test]
fn rows_without_a_token_are_padded() {
    for name in ["bpe-gpt2", "spm-llama2", "json-llama2"] {
        let folder = Folder::open(&golden().join(name));
        let mut ctx = folder.context();
        ctx.embedding_rows = ctx.vocab_size.map(|n| n + 2);
        let vocab = folder.metadata(&ctx).unwrap();
        let metadata = vocab.tokenizer.to_gguf();
        let tokens = metadata.get(keys::TOKENS).unwrap().as_array().unwrap();
        let Array::String(tokens) = tokens else { panic!("{name}") };
        let last = format!("[PAD{}]", tokens.len() - 1);
        assert_eq!(tokens.last().unwrap(), last.as_bytes(), "{name}");
        assert_eq!(tokens.len() as u64, ctx.embedding_rows.unwrap());
        assert_has(&vocab.notes.join("\n"), "rows for");
    }
}

#[test]
fn token_ids_with_gaps_or_duplicates() {
    let error = error_of("bpe-gpt2", |folder, _| {
        folder.edit("tokenizer.json", |json| json["model"]["vocab"]["!"] = json!(1));
    });
    assert_eq!(error, "duplicate token id 1: `!` and `\"`");
    // The config has room for the token that moved: a hole, filled and noted.
    let notes = notes_of("bpe-llama3", |folder, _| {
        folder.edit("tokenizer.json", |json| json["model"]["vocab"]["!"] = json!(310));
    });
    assert_has(&notes, "7 ids below 310 have no token");
    // Added tokens get their ids from the number of tokens, which may lead into those of others.
    let error = error_of("bpe-gpt2", |folder, _| {
        folder.edit("tokenizer.json", |json| {
            json["model"]["vocab"].as_object_mut().unwrap().remove("z");
            json["model"]["vocab"]["!"] = json!(299);
            json["model"]["vocab"]["\""] = json!(0);
        });
    });
    assert_has(&error, "duplicate token id 299: ");
    let error = error_of("json-llama2", |folder, _| {
        folder.edit("tokenizer.json", |json| json["model"]["vocab"]["<unk>"] = json!(999));
    });
    assert_has(&error, "missing token with id 0 (384 tokens are listed)");
    let error = error_of("bpe-gpt2", |folder, _| {
        let text = String::from_utf8(folder.files["tokenizer.json"].clone()).unwrap();
        folder.files.insert(
            "tokenizer.json".into(),
            text.replacen("\"!\":", "\"\\\"\":", 1).replacen("\"!\": ", "\"\\\"\": ", 1).into(),
        );
    });
    assert_has(&error, "duplicate token");
}

#[test]
fn merges_of_unknown_tokens_are_refused() {
    let error = error_of("bpe-gpt2", |folder, _| {
        folder.edit("tokenizer.json", |json| json["model"]["merges"][1] = json!(["a", "zz"]));
    });
    assert_eq!(
        error,
        "`tokenizer.json`: merge 1 (`a` + `zz`) needs token `zz`, which is not in the vocabulary"
    );
    let error = error_of("bpe-slow", |folder, _| {
        folder.files.insert("merges.txt".into(), b"#version\nq q\n".to_vec());
    });
    assert_eq!(error, "`merges.txt`: merge 0 (`q` + `q`) needs token `qq`, which is not in the vocabulary");
    let error = error_of("bpe-slow", |folder, _| {
        folder.files.insert("merges.txt".into(), b"a b c\n".to_vec());
    });
    assert_eq!(error, "`merges.txt`: line 1: expected two tokens, found `a b c`");
    let error = error_of("bpe-gpt2", |folder, _| {
        folder.edit("tokenizer.json", |json| json["model"]["merges"][0] = json!(["a", "b", "c"]));
    });
    assert_has(&error, "`tokenizer.json`: invalid length 3, expected two tokens");
}

#[test]
fn special_ids_out_of_range_are_handled() {
    let notes = notes_of("spm-llama2", |folder, _| {
        folder.edit("config.json", |json| json["pad_token_id"] = json!(384))
    });
    assert_has(&notes, "`config.json`: `pad_token_id` is 384, out of range for 384 tokens: omitted");
    let notes = notes_of("bpe-gpt2", |folder, _| {
        folder.edit("config.json", |json| json["pad_token_id"] = json!(999))
    });
    assert_has(&notes, "`tokenizer.ggml.padding_token_id`: 999 is out of range for 301 tokens");
}

#[test]
fn mislabeled_files_are_refused() {
    let pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n";
    let error = error_of("spm-llama2", |folder, _| {
        folder.files.insert("tokenizer.model".into(), pointer.to_vec());
    });
    assert_has(&error, "`tokenizer.model`: not a SentencePiece model: ");
    let error = error_of("bpe-gpt2", |folder, _| {
        folder.files.insert("tokenizer.json".into(), pointer.to_vec());
    });
    assert_has(&error, "`tokenizer.json`: expected value at line 1 column 1");
    let error = error_of("bpe-gpt2", |folder, _| {
        folder.edit("tokenizer.json", |json| json["model"]["type"] = json!("WordPiece"));
    });
    assert_eq!(
        error,
        "`tokenizer.json`: expected a tokenizer of kind `BPE` for this architecture, found `WordPiece`: not supported"
    );
    let error = error_of("bpe-gpt2", |folder, _| folder.files.retain(|name, _| name == "config.json"));
    assert_has(&error, "no tokenizer found; looked for");
    let error = error_of("spm-added", |folder, _| {
        folder.files.insert("added_tokens.json".into(), b"{\"<x>\": \"7\"}".to_vec());
    });
    assert_eq!(error, "`added_tokens.json`: `<x>`: \"7\" is not a token id");
}

#[test]
fn unknown_pre_tokenizer_can_be_overridden() {
    let strange = |folder: &mut Folder| {
        folder.edit("tokenizer.json", |json| {
            json["pre_tokenizer"] = json!({"type": "Sequence", "pretokenizers": [
                {"type": "Split", "pattern": {"Regex": "[a-c\n]+"}, "behavior": "Isolated", "invert": false},
                {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false}]});
        });
    };
    let mut folder = Folder::open(&golden().join("bpe-gpt2"));
    strange(&mut folder);
    let mut ctx = folder.context();
    let error = folder.metadata(&ctx).unwrap_err();
    assert_has(&error.to_string(), r"it splits by `[a-c\n]+`, then bytes (token hash ");
    assert_has(&gguf_types::Problem::hint(&error).unwrap().to_string(), "set it with `--pre NAME`");
    ctx.pre = Some("falcon".into());
    let vocab = folder.metadata(&ctx).unwrap();
    assert_eq!(vocab.tokenizer.to_gguf().get(keys::PRE).and_then(Value::as_str), Some("falcon"));
    // Other spellings of the same are recognized.
    let mut folder = Folder::open(&golden().join("bpe-qwen2"));
    folder.edit("tokenizer.json", |json| {
        let split = &mut json["pre_tokenizer"]["pretokenizers"][0];
        let expression = split["pattern"]["Regex"].as_str().unwrap().replace(r"\r\n", "\r\n");
        *split =
            json!({"type": "Split", "pattern": {"Regex": expression}, "behavior": "Removed", "invert": true});
    });
    let vocab = folder.metadata(&folder.context()).unwrap();
    assert_has(&vocab.details.join("\n"), "pre-tokenizer `qwen2`: by its expressions");
}

/// The value of a key of a golden that was changed.
fn value_of(name: &str, key: &str, change: impl FnOnce(&mut Folder, &mut VocabContext)) -> Option<Value> {
    let mut folder = Folder::open(&golden().join(name));
    let mut ctx = folder.context();
    change(&mut folder, &mut ctx);
    let entries = folder.metadata(&ctx).unwrap().tokenizer.to_gguf();
    entries.get(key).cloned()
}

#[test]
fn tokenizer_files_are_embedded_on_request() {
    for (name, file, key) in [
        ("bpe-gpt2", "tokenizer.json", keys::HF_JSON),
        ("wordpiece-bert", "tokenizer.json", keys::HF_JSON),
        ("rwkv-world", "rwkv_vocab_v20230424.txt", keys::RWKV_WORLD),
    ] {
        assert_eq!(value_of(name, key, |_, _| {}), None);
        let embedded = value_of(name, key, |_, ctx| ctx.embed_json = true).unwrap();
        let bytes = Folder::open(&golden().join(name)).files[file].clone();
        assert_eq!(embedded, Value::String(bytes), "{name}");
    }
    let notes = notes_of("spm-llama2", |_, ctx| ctx.embed_json = true);
    assert_has(&notes, "missing `tokenizer.json` to embed as `tokenizer.huggingface.json`");
}

#[test]
fn non_numeric_scores_are_refused() {
    let error = error_of("unigram-json", |folder, _| {
        folder.edit("tokenizer.json", |json| json["model"]["vocab"][7][1] = json!("NaN"));
    });
    assert_has(&error, "`tokenizer.json`: invalid score of token `");
    assert_has(&error, "`: \"NaN\"");
    let error = error_of("unigram-json", |folder, _| {
        folder.edit("tokenizer.json", |json| json["normalizer"]["precompiled_charsmap"] = json!("?"));
    });
    assert_eq!(error, "`tokenizer.json`: `normalizer.precompiled_charsmap`: not base64");
    let error = error_of("rwkv-world", |folder, _| {
        folder.files.insert("rwkv_vocab_v20230424.txt".into(), b"1 'a' 1\n2 'b' 2\n".to_vec());
    });
    assert_has(&error, "`rwkv_vocab_v20230424.txt`: line 2: the token has another length");
}

#[test]
fn conflicting_tokenizer_files_are_reported() {
    let notes = notes_of("spm-and-json", |_, _| {});
    assert!(!notes.contains("disagree"), "{notes}");
    let notes = notes_of("spm-and-json", |folder, _| {
        folder.edit("tokenizer.json", |json| {
            let vocab = json["model"]["vocab"].as_object_mut().unwrap();
            let id = vocab.remove("<0x41>").unwrap();
            vocab.insert("another".into(), id);
        });
    });
    assert_has(
        &notes,
        "disagree on 1 tokens: id 68 is `<0x41>` and `another`; using `tokenizer.model`, which has the scores",
    );
    let notes = notes_of("spm-and-json", |folder, _| {
        folder.edit("tokenizer.json", |json| json["model"]["vocab"]["one more"] = json!(384));
    });
    assert_has(&notes, "`tokenizer.model` has 384 tokens, but `tokenizer.json` has 385");
}

#[test]
fn unparsable_template_is_kept_with_note() {
    let bad = "{% for m in messages %}{{ m }}";
    let with = |text: &str| {
        let text = text.to_owned();
        move |folder: &mut Folder, _: &mut VocabContext| {
            folder.edit("tokenizer_config.json", |json| json["chat_template"] = json!(text));
        }
    };
    let notes = notes_of("bpe-gpt2", with(bad));
    assert_has(&notes, "`chat_template` is not a valid Jinja template: ");
    assert_has(&notes, "it is kept unchanged");
    let template = value_of("bpe-gpt2", keys::CHAT_TEMPLATE, with(bad)).unwrap();
    assert_eq!(template.as_str(), Some(bad));
    for good in [
        "mistral-v3",
        "{% for m in messages %}{% generation %}{{ m }}{%- endgeneration -%}{% endfor %}",
        "{%- set ns = namespace(a=[]) -%}{% if messages[0]['role'] == 'system' and not x is defined %}{{ ns.a[::-1] | tojson(indent=4) }}{% endif %}",
        "{% macro f(a, b=none) %}{{ a ~ b }}{% endmacro %}{% for k, v in d.items() %}{% continue %}{% endfor %}{{ raise_exception('x') }}",
    ] {
        let notes = notes_of("bpe-gpt2", with(good));
        assert!(!notes.contains("Jinja"), "{good}: {notes}");
    }
    let notes = notes_of("bpe-qwen2", |folder, _| {
        folder.edit("tokenizer_config.json", |json| json["chat_template"][1]["template"] = json!("{{ a"));
    });
    assert_has(&notes, "`chat_template.tool-use` is not a valid Jinja template");
}

#[test]
fn tiktoken_file_named_as_sentencepiece_is_read() {
    let mut folder = Folder::open(&golden().join("bpe-gpt2"));
    folder.files.retain(|name, _| name == "config.json");
    let lines: String = (0..=255u8)
        .map(|byte| (vec![byte], u32::from(byte)))
        .chain([(b"th".to_vec(), 256), (b"the".to_vec(), 257), (b" the".to_vec(), 258)])
        .map(|(bytes, rank)| format!("{} {rank}\n", to_base64(&bytes)))
        .collect();
    folder.files.insert("tokenizer.model".into(), lines.into_bytes());
    let listed = json!({"added_tokens_decoder": {"259": {"content": "<|end|>", "special": true}}, "eos_token": "<|end|>"});
    folder.files.insert("tokenizer_config.json".into(), listed.to_string().into_bytes());
    folder.edit("config.json", |json| json["eos_token_id"] = json!(259));
    let mut ctx = VocabContext { route: route("llama"), ..VocabContext::default() };
    ctx.vocab_size = Some(262);
    let vocab = folder.metadata(&ctx).unwrap();
    assert_has(&vocab.notes.join("\n"), "`tokenizer.model` is a tiktoken file");
    let get = |key: &str| vocab.tokenizer.to_gguf().get(key).cloned();
    assert_eq!(get(keys::PRE).unwrap().as_str(), Some("llama-bpe"));
    let Some(Value::Array(Array::String(tokens))) = get(keys::TOKENS) else { panic!() };
    assert_eq!((tokens.len(), &tokens[258], &tokens[259]), (262, "Ġthe".as_bytes(), &b"<|end|>"[..]));
    assert_eq!(&tokens[261], b"[PAD261]");
    let Some(Value::Array(Array::String(merges))) = get(keys::MERGES) else { panic!() };
    assert_eq!(merges, Strings::from(vec!["t h", "th e", "Ġ the"]));
    assert_eq!(get(keys::EOS_ID), Some(Value::U32(259)));
}

fn to_base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for part in bytes.chunks(3) {
        let bits =
            part.iter().fold(0u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - part.len()));
        for i in 0..4 {
            let c = ALPHABET[(bits >> (18 - 6 * i)) as usize & 63] as char;
            text.push(if i <= part.len() { c } else { '=' });
        }
    }
    text
}

#[test]
fn unknown_pre_tokenizer_suggests_nearest() {
    let error = error_of("bpe-qwen2", |folder, _| {
        folder.edit("tokenizer.json", |json| {
            let split = &mut json["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"];
            *split = json!(split.as_str().unwrap().replace(r"|\p{N}|", r"|\p{N}{1,2}|"));
        });
    });
    assert_has(&error, "; nearest known: `");
    assert_has(&error, r"this has `\p{N}{1,2}`");
    // The file can be used by nothing as it is, which is more than a note.
    let folder = Folder::open(&golden().join("bpe-qwen2"));
    let mut ctx = folder.context();
    ctx.pre = Some("nonsense".into());
    assert_has(&folder.metadata(&ctx).unwrap().warnings.join("\n"), "unknown to llama.cpp");
}

#[test]
fn padding_stops_at_embedding_rows() {
    for (rows, expected) in [(None, 312), (Some(320), 320), (Some(301), 301)] {
        let tokens = value_of("bpe-gpt2", keys::TOKENS, |folder, ctx| {
            folder.edit("config.json", |json| json["pad_vocab_size_multiple"] = json!(8));
            (ctx.route, ctx.vocab_size, ctx.embedding_rows) =
                (route("mamba"), Some(305), rows.filter(|n| *n > 304).or(None));
            if rows == Some(301) {
                (ctx.vocab_size, ctx.embedding_rows) = (Some(301), Some(301));
            }
        });
        assert_eq!(tokens.unwrap().as_array().unwrap().len(), expected, "{rows:?}");
    }
}

#[test]
fn llama_tokenizers_as_json_alone() {
    // Families that the reference reads from tokenizer.model only: scores from the merges, added
    // tokens where the file states them and as what it says they are.
    let ranked = |key: &str| value_of("json-llama2-added", key, |_, ctx| ctx.route = route("gemma2"));
    let Some(Value::Array(Array::I32(types))) = ranked(keys::TOKEN_TYPE) else { panic!() };
    assert_eq!(types[384..], [3, 4]);
    let Some(Value::Array(Array::F32(scores))) = ranked(keys::SCORES) else { panic!() };
    assert!(scores[259] > scores[300] && scores[300] > scores[330], "{scores:?}");
    // ChatGLM 3: its nine special tokens come after the pieces, listed or not.
    let chatglm = |folder: &mut Folder, ctx: &mut VocabContext| {
        folder.edit("config.json", |json| json["padded_vocab_size"] = json!(400));
        (ctx.route, ctx.embedding_rows) = (route("chatglm"), None);
    };
    let Some(Value::Array(Array::String(tokens))) = value_of("json-llama2", keys::TOKENS, chatglm) else {
        panic!()
    };
    for (id, text) in
        [(1, "<bos>"), (384, "[MASK]"), (387, "sop"), (392, "<|observation|>"), (393, "[PAD393]")]
    {
        assert_eq!(&tokens[id], text.as_bytes(), "{id}");
    }
    assert_eq!(tokens.len(), 400);
    let pre = value_of("json-llama2", keys::PRE, chatglm).unwrap();
    assert_eq!(pre.as_str(), Some("chatglm-spm"));
    // The reference's keys lose information, which is noted.
    let notes = notes_of("json-llama2", |folder, _| {
        folder.edit("tokenizer.json", |json| json["normalizer"] = json!(null));
    });
    assert_has(&notes, "has no scores, and all tokens get the same one");
    assert_has(&notes, "does not add a space before a text, but llama.cpp does");
}

#[test]
fn pre_tokenizer_follows_ignore_merges() {
    // The expressions of Llama 3 with words taken whole are `llama-bpe`, whatever else the tokenizer adds.
    let notes = notes_of("bpe-llama3", |folder, _| {
        folder.edit("tokenizer.json", |json| json["model"]["ignore_merges"] = json!(true));
    });
    assert_has(&notes, "pre-tokenizer `llama-bpe`: by its expressions");
    // A chosen name is used, with a note about its effect.
    for (pre, ignore_merges, note) in [
        ("smaug-bpe", true, "`smaug-bpe`: `ignore_merges` is set"),
        ("llama-bpe", false, "`llama-bpe`: `ignore_merges` is not set"),
    ] {
        let notes = notes_of("bpe-llama3", |folder, ctx| {
            folder.edit("tokenizer.json", |json| json["model"]["ignore_merges"] = json!(ignore_merges));
            ctx.pre = Some(pre.to_owned());
        });
        assert_has(&notes, note);
    }
}

#[test]
fn added_token_flags_without_a_key_are_noted() {
    let flag = |folder: &mut Folder, flag: &str| {
        folder.edit("tokenizer.json", |json| json["added_tokens"][0][flag] = json!(true));
    };
    for (name, meaning) in [
        ("single_word", "not matched inside words"),
        ("lstrip", "strips spaces on the left"),
        ("rstrip", "strips spaces on the right"),
    ] {
        let notes = notes_of("bpe-gpt2", |folder, _| flag(folder, name));
        assert_has(
            &notes,
            &format!("added tokens with the flag `{name}` ({meaning}): `<|endoftext|>`: no metadata key"),
        );
    }
    // llama.cpp knows the mask of these by name, and what Phi 3 does.
    let mask = |folder: &mut Folder, text: &str| {
        folder.edit("tokenizer.json", |json| {
            json["added_tokens"][0]["content"] = json!(text);
            json["added_tokens"][0]["lstrip"] = json!(true);
        });
    };
    for (text, architecture, model_name, is_noted) in [
        ("<mask>", "nomic-bert-moe", "", false),
        ("<mask>", "bert", "", true),
        ("[MASK]", "bert", "Modern-BERT base", false),
        ("[MASK]", "bert", "base", true),
    ] {
        let notes = notes_of("bpe-gpt2", |folder, ctx| {
            mask(folder, text);
            (ctx.architecture, ctx.model_name) = (architecture.to_owned(), model_name.to_owned());
            ctx.vocab_size = None;
            ctx.embedding_rows = None;
        });
        assert_eq!(
            notes.contains("with the flag `lstrip`"),
            is_noted,
            "{text} {architecture} {model_name}: {notes}"
        );
    }
    let notes = notes_of("bpe-gpt2", |folder, ctx| {
        folder.edit("tokenizer.json", |json| {
            json["added_tokens"][0]["content"] = json!("<|user|>");
            json["added_tokens"][0]["rstrip"] = json!(true);
        });
        (ctx.model_name, ctx.vocab_size, ctx.embedding_rows) = ("Phi-3 mini".to_owned(), None, None);
    });
    assert!(!notes.contains("rstrip"), "{notes}");
    // tokenizer_config.json is read over tokenizer.json.
    let notes = notes_of("bpe-gpt2", |folder, _| {
        flag(folder, "rstrip");
        let listed = json!({"added_tokens_decoder": {"300": {"content": "<|endoftext|>", "special": true}}});
        folder.files.insert("tokenizer_config.json".into(), listed.to_string().into_bytes());
    });
    assert!(!notes.contains("rstrip"), "{notes}");
}
