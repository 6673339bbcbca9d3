//! Models that export refuses, and names that it restores.

use std::collections::BTreeMap;

use gguf_container::{Array, KeyError, Metadata, Value};
use gguf_layout::export::{ExportError, ExportLayout, GgufInput, resolve};
use gguf_tokenizer::export::ExportError::{Key, Unsupported};
use gguf_tokenizer::huggingface::Route;
use gguf_types::Shape;
use serde_json::{Value as Json, json};

/// A model of one layer that has everything it needs.
struct Tiny {
    metadata: Metadata,
    tensors: Vec<(String, Shape)>,
    rope_freqs: Option<Vec<f32>>,
}

fn texts(items: &[&str]) -> Value {
    Value::Array(Array::String(items.iter().collect()))
}

impl Tiny {
    fn new() -> Tiny {
        let count = |key: &str, value: u32| (format!("llama.{key}"), Value::U32(value));
        let metadata = Metadata::from([
            ("general.architecture".to_owned(), "llama".into()),
            count("block_count", 1),
            count("context_length", 64),
            count("embedding_length", 8),
            count("feed_forward_length", 16),
            count("attention.head_count", 2),
            count("attention.head_count_kv", 1),
            ("llama.attention.layer_norm_rms_epsilon".to_owned(), Value::F32(1e-5)),
            ("tokenizer.ggml.model".to_owned(), "gpt2".into()),
            ("tokenizer.ggml.pre".to_owned(), "gpt-2".into()),
            ("tokenizer.ggml.tokens".to_owned(), texts(&["a", "b", "ab", "<end>"])),
            ("tokenizer.ggml.token_type".to_owned(), Value::Array(Array::I32(vec![1, 1, 1, 3]))),
            ("tokenizer.ggml.merges".to_owned(), texts(&["a b"])),
        ]);
        let shapes: [(&str, &[u64]); 11] = [
            ("token_embd", &[8, 5]),
            ("output_norm", &[8]),
            ("blk.0.attn_norm", &[8]),
            ("blk.0.attn_q", &[8, 8]),
            ("blk.0.attn_k", &[8, 4]),
            ("blk.0.attn_v", &[8, 4]),
            ("blk.0.attn_output", &[8, 8]),
            ("blk.0.ffn_norm", &[8]),
            ("blk.0.ffn_gate", &[8, 16]),
            ("blk.0.ffn_up", &[8, 16]),
            ("blk.0.ffn_down", &[16, 8]),
        ];
        let tensors = shapes
            .into_iter()
            .map(|(name, dims)| (format!("{name}.weight"), Shape::new(dims).expect("a small shape")))
            .collect();
        Tiny { metadata, tensors, rope_freqs: None }
    }

    fn with(mut self, key: &str, value: impl Into<Value>) -> Tiny {
        self = self.without(key);
        self.metadata.set(key, value);
        self
    }

    fn without(mut self, key: &str) -> Tiny {
        self.metadata.remove(key);
        self
    }

    fn tensor(mut self, name: &str, dims: &[u64]) -> Tiny {
        self.tensors.retain(|(have, _)| have != name);
        self.tensors.push((name.to_owned(), Shape::new(dims).expect("a small shape")));
        self
    }

    fn export(self) -> Result<ExportLayout, ExportError> {
        let Tiny { metadata, tensors, rope_freqs } = self;
        resolve(
            &gguf_models::FAMILIES,
            &GgufInput { metadata: &metadata, tensors, rope_freqs, rope_factors: None, dtype: "float16" },
        )
    }

    #[track_caller]
    fn refused(self, message: &str) {
        match self.export() {
            Ok(_) => panic!("not refused"),
            Err(error) => assert_eq!(error.to_string(), message),
        }
    }

    #[track_caller]
    fn json(self, file: &str) -> Json {
        let layout = self.export().unwrap_or_else(|error| panic!("{error}"));
        let files: BTreeMap<_, _> = layout.files.into_iter().collect();
        serde_json::from_slice(&files[file]).expect("the file is JSON")
    }
}

#[test]
fn complete_model_is_exported() {
    let layout = Tiny::new().export().unwrap();
    assert_eq!(layout.notes, [""; 0]);
    let names: Vec<&str> = layout.tensors.iter().map(|tensor| tensor.name.as_str()).collect();
    assert_eq!(names[0], "model.embed_tokens.weight");
    assert_eq!(names[3], "model.layers.0.self_attn.q_proj.weight");
    assert_eq!(layout.tensors[4].parts[0].rows, gguf_layout::RowMap::RopePermute { n_head: 1 });
    let config = Tiny::new().json("config.json");
    for (key, value) in [
        ("architectures", json!(["LlamaForCausalLM"])),
        ("head_dim", json!(4)),
        ("rms_norm_eps", json!(1e-5)),
        ("tie_word_embeddings", json!(true)),
        ("vocab_size", json!(5)),
        ("dtype", json!("float16")),
        ("rope_parameters", json!({"rope_type": "default", "rope_theta": 10000.0})),
    ] {
        assert_eq!(config[key], value, "{key}");
    }
}

#[test]
fn missing_parts_are_named() {
    Tiny::new()
        .with("general.architecture", "chameleon")
        .refused("architecture `chameleon` cannot be exported to a checkpoint folder: norms of all heads except the first are not stored");
    let unknown = Tiny::new().with("general.architecture", "martian").export();
    assert!(matches!(unknown, Err(ExportError::Architecture { known, .. }) if known.contains(&"whisper")));
    // A file that says it is of another architecture lacks what that one has.
    let other = Tiny::new().with("general.architecture", "mamba").export();
    assert!(matches!(other, Err(ExportError::UnusedTensors { .. })));
    for key in ["llama.block_count", "llama.embedding_length", "llama.attention.layer_norm_rms_epsilon"] {
        Tiny::new().without(key).refused(&format!("missing metadata key `{key}`"));
    }
    for key in ["tokenizer.ggml.model", "tokenizer.ggml.tokens", "tokenizer.ggml.merges"] {
        Tiny::new().without(key).refused(&format!("missing metadata key `{key}`"));
    }
    Tiny::new()
        .with("llama.block_count", "three")
        .refused("metadata key `llama.block_count`: expected an integer of 0 or more, found three");
    Tiny::new()
        .with("llama.feed_forward_length", Array::U32(vec![1, 2]))
        .refused("metadata key `llama.feed_forward_length`: expected an integer of 0 or more, found an array of 2 items");
    let mut tiny = Tiny::new();
    tiny.tensors.retain(|(name, _)| !name.contains("ffn_up"));
    tiny.refused("1 missing tensor: `blk.0.ffn_up.weight`");
    let huge = Tiny::new().with("llama.block_count", u32::MAX).export();
    assert!(matches!(huge, Err(ExportError::MissingTensors { names }) if names.len() < 200));
    Tiny::new()
        .tensor("blk.0.odd.weight", &[8])
        .tensor("blk.7.attn_q.weight", &[8, 8])
        .refused("2 tensors that a checkpoint cannot hold: `blk.0.odd.weight`, `blk.7.attn_q.weight`");
    Tiny::new()
        .tensor("blk.0.attn_q.weight", &[8, 6])
        .refused("tensor `blk.0.attn_q.weight`: expected 2 heads of 4 rows, found shape [8, 6]");
    Tiny::new()
        .tensor("token_embd.weight", &[9, 5])
        .refused("tensor `token_embd.weight`: expected rows of 8 elements, found shape [9, 5]");
    Tiny::new()
        .tensor("token_embd.weight", &[8, 3])
        .refused("`tokenizer.ggml.tokens`: expected at most the 3 rows of the embedding, found 4 entries");
    Tiny::new()
        .with("llama.attention.head_count", 0u32)
        .refused("metadata key `llama.attention.head_count`: expected heads of an even number of rows, found 0 heads of 0 rows");
    Tiny::new()
        .with("llama.rope.dimension_count", 2u32)
        .refused("`llama.rope.dimension_count` 2 with heads of 4 cannot be expressed in a Hugging Face config of this architecture");
    Tiny::new().with("llama.rope.scaling.type", "longrope").refused(
        "rotary scaling of type `longrope` cannot be expressed in a Hugging Face config of this architecture",
    );
}

#[test]
fn unsupported_tokenizers_are_refused() {
    let pre = Tiny::new().with("tokenizer.ggml.pre", "martian").export();
    assert!(
        matches!(pre, Err(ExportError::Tokenizer(Unsupported { subject: "pre-tokenizer", known, .. })) if known.contains(&"smollm"))
    );
    let kind = Tiny::new().with("tokenizer.ggml.model", "whitespace").export();
    assert!(
        matches!(kind, Err(ExportError::Tokenizer(Unsupported { subject: "tokenizer", found, .. })) if found == "whitespace")
    );
    let bytes = Array::String(vec![b"a", b"\xff"].into());
    Tiny::new().with("tokenizer.ggml.tokens", bytes).refused("token 1 is not UTF-8");
    Tiny::new()
        .with("tokenizer.ggml.token_type", Array::I32(vec![1]))
        .refused("`tokenizer.ggml.token_type`: expected the 4 numbers of the tokens, found 1 entries");
    let merge = Tiny::new().with("tokenizer.ggml.merges", texts(&["ab"])).export();
    assert!(
        matches!(merge, Err(ExportError::Tokenizer(Key(KeyError::Value { found, .. }))) if found == "`ab` at 0")
    );
    let twice = Tiny::new().with("tokenizer.ggml.tokens", texts(&["a", "b", "b", "<end>"])).export().unwrap();
    assert_eq!(twice.notes, ["tokens 1 and 2 have the same text; only 2 is kept"]);
    // A SentencePiece vocabulary in which some bytes have no token makes no tokenizer.model.
    let spm = Tiny::new()
        .with("tokenizer.ggml.model", "llama")
        .with("tokenizer.ggml.tokens", texts(&["<unk>", "<0x41>", "a"]))
        .with("tokenizer.ggml.token_type", Array::I32(vec![2, 6, 1]))
        .with("tokenizer.ggml.scores", Array::F32(vec![0.0; 3]))
        .export()
        .unwrap();
    assert_eq!(spm.notes, ["tokenizer.model is not written: some bytes have a token and others have none"]);
    assert!(!spm.files.iter().any(|(name, _)| name == "tokenizer.model"));
}

#[test]
fn rotary_scaling_is_restored() {
    let rope = |tiny: Tiny| tiny.json("config.json")["rope_parameters"].clone();
    let linear =
        Tiny::new().with("llama.rope.scaling.type", "linear").with("llama.rope.scaling.factor", 4.0f32);
    assert_eq!(rope(linear), json!({"rope_type": "linear", "factor": 4.0, "rope_theta": 10000.0}));
    let yarn = Tiny::new()
        .with("llama.rope.scaling.type", "yarn")
        .with("llama.rope.scaling.factor", 4.0f32)
        .with("llama.rope.scaling.original_context_length", 32u32)
        .with("llama.rope.scaling.yarn_beta_fast", 32.0f32);
    let expected = json!({
        "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32, "beta_fast": 32.0,
        "rope_theta": 10000.0,
    });
    assert_eq!(rope(yarn), expected);
    // Divisors that no parameters give.
    let mut odd = Tiny::new().tensor("rope_freqs.weight", &[2]);
    odd.rope_freqs = Some(vec![3.0, 1.5]);
    odd.refused("`rope_freqs.weight` with 2 divisors up to 3 cannot be expressed in a Hugging Face config of this architecture");
    // Divisors that change nothing.
    let mut ones = Tiny::new().tensor("rope_freqs.weight", &[2]);
    ones.rope_freqs = Some(vec![1.0, 1.0]);
    assert_eq!(rope(ones), json!({"rope_type": "default", "rope_theta": 10000.0}));
}

#[test]
fn keys_without_a_counterpart_are_noted() {
    let layout = Tiny::new().with("llama.attention.clamp_kqv", 8.0f32).export().unwrap();
    assert_eq!(
        layout.notes,
        ["metadata key `llama.attention.clamp_kqv` has no counterpart in a config and is omitted"]
    );
}

#[test]
fn card_and_generation_config_are_restored() {
    let tiny = Tiny::new()
        .with("general.name", "Tiny \"no\": <b>")
        .with("general.license", "no")
        .with("general.languages", texts(&["no", "en"]))
        .with("general.base_model.count", 2u32)
        .with("general.base_model.0.name", "Base")
        .with("general.base_model.0.repo_url", "https://huggingface.co/org/base")
        .with("general.base_model.1.name", "Elsewhere")
        .with("general.sampling.top_k", Value::I32(40))
        .with("general.sampling.temp", 0.7f32)
        .with("tokenizer.ggml.eos_token_id", 3u32)
        .with("tokenizer.ggml.eot_token_id", 2u32);
    let layout = tiny.export().unwrap();
    let file = |name: &str| {
        let bytes = layout.files.iter().find(|(have, _)| have == name).map(|(_, bytes)| bytes.clone());
        String::from_utf8(bytes.unwrap()).unwrap()
    };
    let head = "---\nname: \"Tiny \\\"no\\\": <b>\"\nlicense: \"no\"\nlanguage:\n- \"no\"\n- \"en\"\nbase_model:\n- \"org/base\"\n- {\"name\":\"Elsewhere\"}\n---\n";
    assert!(file("README.md").starts_with(head), "{}", file("README.md"));
    let generation: Json = serde_json::from_str(&file("generation_config.json")).unwrap();
    let expected = json!({
        "_from_model_config": true, "eos_token_id": [3, 2], "top_k": 40, "do_sample": true, "temperature": 0.7,
    });
    assert_eq!(generation, expected);
}

/// Tokenizers that the tokenizers library made, through the file's keys to tokenizer.json again.
#[test]
fn byte_level_tokenizers_survive_export() {
    let golden = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden/tokenizer");
    for (name, pre) in
        [("bpe-gpt2", "gpt-2"), ("bpe-llama3", "llama-bpe"), ("bpe-qwen2", "qwen2"), ("bpe-smollm", "smollm")]
    {
        let read = |file: &str| std::fs::read(golden.join(name).join(file)).unwrap();
        let files = ["config.json", "tokenizer.json", "tokenizer_config.json"].map(|file| (file, read(file)));
        let config: Json = serde_json::from_slice(&files[0].1).unwrap();
        let original: Json = serde_json::from_slice(&files[1].1).unwrap();
        let vocab_size = config["vocab_size"].as_u64();
        let input = gguf_layout::Input {
            config,
            files: files.iter().map(|(file, bytes)| ((*file).to_owned(), bytes.as_slice())).collect(),
            ..gguf_layout::Input::default()
        };
        let context = gguf_tokenizer::huggingface::VocabContext {
            vocab_size,
            embedding_rows: vocab_size,
            pre: Some(pre.to_owned()),
            ..Default::default()
        };
        let mut tiny = Tiny::new().tensor("token_embd.weight", &[8, vocab_size.unwrap()]);
        tiny.metadata.retain(|key, _| !key.starts_with("tokenizer."));
        tiny.metadata.extend(
            gguf_tokenizer::Tokenizer::from_huggingface(&input.tokenizer_files(), Route::GPT2, &context)
                .unwrap()
                .tokenizer
                .to_gguf(),
        );
        let returned = tiny.json("tokenizer.json");

        for part in ["normalizer", "pre_tokenizer"] {
            assert_eq!(returned[part], original[part], "{name}: {part}");
        }
        assert_eq!(returned["model"]["ignore_merges"], original["model"]["ignore_merges"], "{name}");
        let merges = |json: &Json| -> Vec<(String, String)> {
            let pair = |merge: &Json| match merge {
                Json::String(text) => {
                    text.split_once(' ').map(|(l, r)| (l.to_owned(), r.to_owned())).unwrap()
                }
                pair => (pair[0].as_str().unwrap().to_owned(), pair[1].as_str().unwrap().to_owned()),
            };
            json["model"]["merges"].as_array().unwrap().iter().map(pair).collect()
        };
        assert_eq!(merges(&returned), merges(&original), "{name}");
        for (text, id) in original["model"]["vocab"].as_object().unwrap() {
            assert_eq!(&returned["model"]["vocab"][text], id, "{name}: {text}");
        }
        let specials = |json: &Json| -> BTreeMap<u64, String> {
            let added = json["added_tokens"].as_array().unwrap().iter();
            let special = added.filter(|token| token["special"] == true);
            special.map(|t| (t["id"].as_u64().unwrap(), t["content"].as_str().unwrap().to_owned())).collect()
        };
        for (id, text) in specials(&original) {
            assert_eq!(specials(&returned).get(&id), Some(&text), "{name}");
        }
        // The step around a text, where there is one; which of two texts a token counts to is not
        // in the file.
        let template = |json: &Json| -> Option<String> {
            let steps = json["post_processor"]["processors"].as_array().cloned();
            let steps = steps.unwrap_or_else(|| vec![json["post_processor"].clone()]);
            let step = steps.into_iter().find(|step| step["type"] == "TemplateProcessing")?;
            Some(step.to_string().replace("\"type_id\":1", "\"type_id\":0"))
        };
        assert_eq!(template(&returned), template(&original), "{name}");
    }
}
