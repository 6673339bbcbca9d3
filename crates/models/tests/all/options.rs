//! Config options that a file cannot express: each is reported if its value changes the computation, and only then.
//!
//! The differences that these messages are about were measured with `scripts/option-differences`, which makes the
//! checkpoints with transformers.

use std::collections::BTreeSet;

use gguf_layout::{ArchError, Layout};
use gguf_testkit::golden_value;
use serde_json::{Value as Json, json};

use crate::golden::{checkpoints, expected_of, input, options};

/// The layout of a golden checkpoint, with another value of an option (its path in the config, with dots) if given.
pub fn resolve(name: &str, change: Option<(&str, Json)>) -> Result<Layout, ArchError> {
    let folder = gguf_testkit::checkpoint(name);
    let forms = gguf_checkpoint::Folder::from(&folder).forms(gguf_models::FORMS);
    let checkpoint = gguf_checkpoint::open(forms).unwrap();
    let mut input = input(&checkpoint);
    if let Some((option, value)) = change {
        let mut place = &mut input.config;
        if place.get("text_config").is_some() {
            place = &mut place["text_config"];
        }
        for part in option.split('.') {
            place = &mut place[part];
        }
        *place = value;
    }
    gguf_layout::resolve(&input, &options(&expected_of(&folder)))
}

#[test]
fn unknown_activation_of_a_classifier_is_refused() {
    let error =
        resolve("modern-bert-classifier", Some(("classifier_activation", json!("relu")))).unwrap_err();
    assert!(error.to_string().contains("`classifier_activation`"), "{error}");
}

/// All that a conversion reports about the computation.
fn messages(layout: &Layout) -> Vec<String> {
    let unread = layout.unread_keys.iter().filter(|key| key.is_mathematics);
    let unread = unread.map(|key| format!("`{}` is not used", key.key));
    layout.notes.iter().chain(&layout.warnings).cloned().chain(unread).collect()
}

/// YaRN of a short context.
fn yarn(more: Json) -> Json {
    let mut parameters = json!({"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 32});
    parameters.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    parameters
}

/// A value of a config option or of a key.
type MakeJson = fn() -> Json;

/// Options with a value that llama.cpp does not support: golden, option, value, part of the message.
const REPORTED: &[(&str, &str, MakeJson, &str)] = &[
    ("afmoe-old", "mup_enabled", || json!(false), "mup_enabled"),
    ("afmoe", "layer_types", || json!(vec!["full_attention"; 4]), "will not load"),
    ("cohere2", "layer_types", || json!(vec!["full_attention"; 4]), "will not load"),
    ("deepseek3", "rope_interleave", || json!(false), "rope_interleave"),
    ("deepseek3", "rms_norm_eps", || json!(0.05), "rms_norm_eps"),
    ("deepseek3", "rope_parameters", || yarn(json!({})), "rope_parameters"),
    ("deepseek3", "rope_parameters", || yarn(json!({"mscale_all_dim": 0.7})), "rope_parameters"),
    ("exaone4-old", "sliding_window", || json!(64), "sliding_window"),
    ("falcon", "alibi", || json!(true), "alibi"),
    ("falcon-h1", "time_step_limit", || json!([0.5, 1.0]), "time_step_limit"),
    ("falcon-mamba", "mixer_rms_eps", || json!(0.05), "mixer_rms_eps"),
    ("gemma", "hidden_act", || json!("silu"), "hidden_act"),
    ("gemma2", "query_pre_attn_scalar", || json!(100), "query_pre_attn_scalar"),
    ("gemma3", "use_bidirectional_attention", || json!(true), "use_bidirectional_attention"),
    (
        "gemma3",
        "rope_parameters.sliding_attention",
        || json!({"rope_theta": 10000.0, "rope_type": "linear", "factor": 4.0}),
        "rope_parameters.sliding_attention",
    ),
    ("gemma3n", "altup_active_idx", || json!(1), "altup_active_idx"),
    ("gemma3n", "altup_correct_scale", || json!(false), "altup_correct_scale"),
    ("gemma3n", "final_logit_softcapping", || json!(10.0), "final_logit_softcapping"),
    ("gemma3n", "final_logit_softcapping", || Json::Null, "final_logit_softcapping"),
    ("glm4-moe-lite", "rope_interleave", || json!(false), "rope_interleave"),
    ("granitehybrid", "time_step_limit", || json!([0.5, 1.0]), "time_step_limit"),
    ("llama", "hidden_act", || json!("gelu"), "hidden_act"),
    ("llama", "rope_parameters", || yarn(json!({"truncate": false})), "truncate"),
    ("llama", "rope_parameters", || yarn(json!({"beta_fast": 4.0})), "beta_fast"),
    ("llama", "rope_parameters", || yarn(json!({"beta_slow": 2.0})), "beta_slow"),
    (
        "llama",
        "rope_parameters",
        || json!({"rope_type": "dynamic", "rope_theta": 1e4, "factor": 4.0}),
        "dynamic",
    ),
    ("llama4", "use_qk_norm", || json!(false), "use_qk_norm"),
    ("mamba2", "time_step_limit", || json!([0.5, 1.0]), "time_step_limit"),
    (
        "olmo3",
        "rope_parameters",
        || {
            let of = |theta: f64| json!({"rope_type": "default", "rope_theta": theta});
            json!({"full_attention": of(500_000.0), "sliding_attention": of(50.0)})
        },
        "rope_parameters",
    ),
    ("mimo2", "attention_bias", || json!(true), "attention_bias"),
    ("phi3", "sliding_window", || json!(8), "sliding_window"),
    ("nemotron-h", "time_step_min", || json!(0.1), "time_step_min` is 0.1"),
    ("olmoe", "norm_topk_prob", || json!(true), "norm_topk_prob"),
    ("olmoe", "clip_qkv", || json!(0.05), "clip_qkv"),
    ("qwen2moe", "norm_topk_prob", || json!(true), "norm_topk_prob"),
    ("mellum", "norm_topk_prob", || json!(false), "norm_topk_prob"),
    ("t5", "dense_act_fn", || json!("silu"), "dense_act_fn"),
    ("t5-gated-old", "scale_decoder_outputs", || json!(true), "scale_decoder_outputs"),
    ("qwen2vl", "rms_norm_eps", || json!(0.05), "rms_norm_eps"),
    ("youtu", "rope_interleave", || json!(false), "rope_interleave"),
    ("vaultgemma", "query_pre_attn_scalar", || json!(16), "query_pre_attn_scalar"),
    ("vaultgemma", "rope_parameters.rope_theta", || json!(50000.0), "rope_theta"),
    ("vaultgemma", "hidden_activation", || json!("silu"), "hidden_activation"),
    ("gemma-embedding2", "hidden_activation", || json!("silu"), "hidden_activation"),
    ("minimax", "rotary_dim", || json!(4), "the file states `rotary_dim`"),
];

#[test]
fn options_without_a_key_are_reported() {
    for (name, option, value, part) in REPORTED {
        let layout = resolve(name, Some((*option, value())))
            .unwrap_or_else(|error| panic!("{name}, {option}: {error}"));
        let usual = messages(&resolve(name, None).unwrap());
        let found: Vec<String> =
            messages(&layout).into_iter().filter(|message| !usual.contains(message)).collect();
        assert!(found.iter().any(|message| message.contains(part)), "{name}, {option}: {found:?}");
    }
}

/// Options with which llama.cpp has no graph for a model: golden, option, value, the error.
const REFUSED: &[(&str, &str, MakeJson, &str)] = &[
    (
        "vaultgemma",
        "layer_types",
        || json!(["sliding_attention", "full_attention"]),
        "key `layer_types`: expected full attention: llama.cpp's `gemma` has no windows",
    ),
    (
        "vaultgemma",
        "attn_logit_softcapping",
        || json!(50.0),
        "key `attn_logit_softcapping`: expected null: llama.cpp's `gemma` has no soft caps, found 50.0",
    ),
    (
        "vaultgemma",
        "final_logit_softcapping",
        || json!(30.0),
        "key `final_logit_softcapping`: expected null: llama.cpp's `gemma` has no soft caps, found 30.0",
    ),
    (
        "gemma-embedding2",
        "rope_parameters.full_attention.rope_type",
        || json!("proportional"),
        "key `rope_parameters.full_attention.rope_type`: expected default, found \"proportional\"",
    ),
    (
        "apertus1.5",
        "output_vocab_size",
        || json!(300),
        "key `output_vocab_size`: expected null: llama.cpp needs an output row for each token, found 300",
    ),
    (
        "deepseek-ocr2",
        "mlp_layer_types",
        || json!(["sparse", "dense"]),
        "key `mlp_layer_types`: expected dense layers before all others",
    ),
    (
        "minimax",
        "layer_types",
        || json!(["sliding_attention"]),
        "key `layer_types`: expected `full_attention` or `linear_attention`, found \"sliding_attention\"",
    ),
];

#[test]
fn options_without_a_graph_are_refused() {
    for (name, option, value, part) in REFUSED {
        let error = resolve(name, Some((*option, value()))).unwrap_err().to_string();
        assert!(error.contains(part), "{name}, {option}: {error}");
    }
}

/// Options for which llama.cpp reads a key that the reference does not write: golden, option, value, key, its value.
const WRITTEN: &[(&str, &str, MakeJson, &str, MakeJson)] = &[
    ("cohere", "rope_parameters", || yarn(json!({})), "command-r.rope.scaling.type", || json!("yarn")),
    ("cohere2", "rope_parameters", || yarn(json!({})), "cohere2.rope.scaling.type", || json!("yarn")),
    ("cohere2moe", "rope_parameters", || yarn(json!({})), "cohere2moe.rope.scaling.type", || json!("yarn")),
    ("exaone-moe", "rope_parameters", || yarn(json!({})), "exaone-moe.rope.scaling.type", || json!("yarn")),
    (
        "nemotron",
        "rope_parameters",
        || yarn(json!({"partial_rotary_factor": 0.5})),
        "nemotron.rope.scaling.type",
        || json!("yarn"),
    ),
    (
        "afmoe",
        "layer_types",
        || json!(vec!["sliding_attention"; 4]),
        "afmoe.attention.sliding_window_pattern",
        || json!(vec![true; 4]),
    ),
];

#[test]
fn options_with_a_key_are_written() {
    for (name, option, value, key, expected) in WRITTEN {
        let layout = resolve(name, Some((*option, value())))
            .unwrap_or_else(|error| panic!("{name}, {option}: {error}"));
        let found = layout.metadata.get(key).map(|value| golden_value(value).1);
        assert_eq!(found, Some(expected()), "{name}, {option}");
    }
}

/// Goldens with such a value in their own config: golden, option.
const BUILT_IN: &[(&str, &str)] = &[
    ("afmoe", "mup_enabled"),
    ("deepseek2-old", "topk_method"),
    ("exaone4", "sliding_window"),
    ("exaone4-pattern-old", "sliding_window"),
    ("exaone4.5", "sliding_window"),
    ("exaone4.5-old", "sliding_window"),
    ("falcon-h1", "mamba_norm_before_gate"),
    ("falcon-rw", "alibi"),
    ("gemma-embedding", "query_pre_attn_scalar"),
    ("gemma-embedding-dense", "query_pre_attn_scalar"),
    ("gemma-embedding-old", "query_pre_attn_scalar"),
    ("gemma2-old", "query_pre_attn_scalar"),
    ("gemma3", "query_pre_attn_scalar"),
    ("gemma3-images", "query_pre_attn_scalar"),
    ("gemma3-old", "query_pre_attn_scalar"),
    ("gemma3n", "num_kv_shared_layers"),
    ("gemma3n-old", "activation_sparsity_pattern"),
    ("gemma3n-old", "num_kv_shared_layers"),
    ("hunyuan-vl", "rope_parameters.mrope_section"),
    ("hunyuan-vl-old", "rope_parameters.mrope_section"),
    ("mellum", "rope_parameters"),
    ("minimax-m3", "rotary_dim"),
    ("nemotron-h", "time_step_min"),
    ("nemotron-h-moe", "time_step_min"),
    ("nemotron-h-moe-old", "time_step_min"),
    ("nemotron-h-old", "time_step_min"),
    ("phi3-longrope", "sliding_window"),
    ("qwen3moe", "norm_topk_prob"),
    ("qwen3moe-old", "norm_topk_prob"),
    ("qwen3moe-stacked", "norm_topk_prob"),
    ("smallthinker", "sliding_window_size"),
    ("t5", "scale_decoder_outputs"),
    ("text-of-paligemma", "query_pre_attn_scalar"),
    ("unlimited-ocr", "sliding_window_size"),
    ("unlimited-ocr-hf", "sliding_window"),
];

#[test]
fn options_are_not_reported_at_built_in_values() {
    let mut found = BTreeSet::new();
    for folder in checkpoints() {
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        let Ok(layout) = resolve(&name, None) else { continue };
        let all = layout.notes.iter().chain(&layout.warnings);
        for note in all.filter(|note| note.contains("llama.cpp computes `") || note.contains("will not load"))
        {
            let option = note.split('`').nth(1).unwrap_or_default().to_owned();
            found.insert((name.clone(), option));
        }
    }
    let expected = BUILT_IN.iter().map(|(name, option)| ((*name).into(), (*option).into()));
    assert_eq!(found, expected.collect::<BTreeSet<(String, String)>>());
}

#[test]
fn text_of_unknown_wrapper_is_converted_with_warning() {
    for (name, class) in [("llava-next", "MistralForCausalLM"), ("paligemma", "Gemma2ForCausalLM")] {
        let layout = resolve(&format!("text-of-{name}"), None).unwrap();
        let expected = format!("converting only its text model, as `{class}`");
        assert!(
            layout.warnings.iter().any(|warning| warning.contains(&expected)),
            "{name}: {:?}",
            layout.warnings
        );
    }
    let layout = resolve("llama", None).unwrap();
    assert!(!layout.warnings.iter().any(|warning| warning.contains("only its text model")));
}

#[test]
fn yarn_factor_without_effect_is_reported() {
    let ignored = |architecture: &str, magnitude: f32| {
        let mut metadata = gguf_container::Metadata::default();
        metadata.set("general.architecture", architecture);
        metadata.set(format!("{architecture}.rope.scaling.type"), "yarn");
        for (key, value) in [("factor", 4.0), ("yarn_attn_factor", magnitude), ("yarn_beta_fast", 32.0)] {
            metadata.set(format!("{architecture}.rope.scaling.{key}"), gguf_container::Value::F32(value));
        }
        gguf_layout::ignored_keys(&gguf_models::FAMILIES, &metadata)
    };
    assert_eq!(
        ignored("llama", 0.7),
        ["`llama.rope.scaling.yarn_attn_factor` is 0.7, but llama.cpp does not read this key for `llama`"]
    );
    // 0.1 ln(4) + 1
    assert!(ignored("llama", 1.138_629_4).is_empty());
    assert!(ignored("grok", 0.7).is_empty());
    assert!(ignored("unknown", 0.7).is_empty());
}

/// Checkpoints whose files have keys that llama.cpp does not read, and the keys.
const WITHOUT_EFFECT: &[(&str, &str)] = &[
    ("unlimited-ocr", "deepseek2-ocr.attention.sliding_window"),
    ("unlimited-ocr-hf", "deepseek2-ocr.attention.sliding_window"),
];

#[test]
fn keys_without_effect_are_rare() {
    let mut found = BTreeSet::new();
    for folder in checkpoints() {
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        let Ok(layout) = resolve(&name, None) else { continue };
        for line in gguf_layout::ignored_keys(&gguf_models::FAMILIES, &layout.metadata) {
            found.insert((name.clone(), line.split('`').nth(1).unwrap_or_default().to_owned()));
        }
    }
    let expected = WITHOUT_EFFECT.iter().map(|(name, key)| ((*name).into(), (*key).into()));
    assert_eq!(found, expected.collect::<BTreeSet<(String, String)>>());
}
