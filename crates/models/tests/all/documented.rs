//! Keys and tensors of golden checkpoints that differ from the reference on purpose, with values from configs and the arithmetic of
//! transformers. `gguf_layout::departure` and `gguf_models::DEPARTURES` have the reasons.

use std::collections::BTreeSet;

use serde_json::{Value as Json, json};

/// Type and value of a key.
pub type Written = (&'static str, fn() -> Json);

/// A key with another value than in the reference's file, or one that the reference does not write.
pub struct Difference {
    /// Names of checkpoints.
    pub checkpoints: &'static [&'static str],
    /// The metadata key.
    pub key: &'static str,
    /// Type and value in our file, as in `expected.json`; none if the key is omitted.
    pub value: Option<Written>,
}

/// All differences.
pub const DIFFERENCES: &[Difference] = &[
    Difference {
        checkpoints: &["afmoe", "afmoe-old"],
        key: "afmoe.attention.sliding_window_pattern",
        value: Some(("arr[bool]", || json!([true, false, true, false]))),
    },
    Difference {
        checkpoints: &["afmoe"],
        key: "afmoe.expert_weights_norm",
        value: Some(("bool", || json!(true))),
    },
    Difference {
        checkpoints: &["deepseek3", "glm4-moe-lite", "glm4-moe-lite-old", "kimi-k2.5"],
        key: "deepseek2.expert_gating_func",
        value: Some(("u32", || json!(2))),
    },
    Difference {
        checkpoints: &["deepseek3.2"],
        key: "deepseek32.expert_gating_func",
        value: Some(("u32", || json!(2))),
    },
    Difference {
        checkpoints: &["dots1"],
        key: "dots1.expert_gating_func",
        value: Some(("u32", || json!(2))),
    },
    Difference {
        checkpoints: &["exaone-moe"],
        key: "exaone-moe.expert_gating_func",
        value: Some(("u32", || json!(2))),
    },
    Difference {
        checkpoints: &["minimax-m2"],
        key: "minimax-m2.expert_gating_func",
        value: Some(("u32", || json!(2))),
    },
    Difference {
        checkpoints: &["minimax-m3"],
        key: "minimax-m3.expert_gating_func",
        value: Some(("u32", || json!(2))),
    },
    Difference {
        checkpoints: &["solar-open"],
        key: "glm4moe.rope.dimension_count",
        value: Some(("u32", || json!(8))),
    },
    Difference {
        checkpoints: &["bert-classifier"],
        key: "general.size_label",
        value: Some(("str", || json!("32K"))),
    },
    Difference {
        checkpoints: &["roberta-classifier"],
        key: "bert.classifier.output_labels",
        value: Some(("arr[str]", || json!(["LABEL_0", "LABEL_1"]))),
    },
    Difference {
        checkpoints: &["glm", "glm-old"],
        key: "chatglm.context_length",
        value: Some(("u32", || json!(512))),
    },
    Difference {
        checkpoints: &["glm", "glm-old"],
        key: "chatglm.attention.layer_norm_rms_epsilon",
        value: Some(("f32", || json!(1.562_499_960_527_93e-7))),
    },
    Difference {
        checkpoints: &["glm", "glm-old"],
        key: "chatglm.rope.dimension_count",
        value: Some(("u32", || json!(4))),
    },
    Difference {
        checkpoints: &["llama-yarn"],
        key: "llama.rope.scaling.attn_factor",
        value: Some(("f32", || json!(0.614_774_227_142_334))),
    },
    Difference {
        checkpoints: &["laguna", "laguna-by-element"],
        key: "laguna.rope.scaling.attn_factor",
        value: Some(("f32", || json!(0.827_852_845_191_955_6))),
    },
    Difference { checkpoints: &["llama-yarn"], key: "llama.rope.scaling.yarn_attn_factor", value: None },
    Difference {
        checkpoints: &["laguna", "laguna-by-element"],
        key: "laguna.rope.scaling.yarn_attn_factor",
        value: None,
    },
    Difference {
        checkpoints: &["nemotron-old"],
        key: "nemotron.rope.dimension_count",
        value: Some(("u32", || json!(4))),
    },
    Difference {
        checkpoints: &["julia", "laya", "modern-bert", "modern-bert-classifier", "modern-bert-old"],
        key: "modern-bert.attention.layer_norm_epsilon",
        value: Some(("f32", || json!(9.999_999_747_378_752e-6))),
    },
    Difference {
        checkpoints: &["exaone", "exaone3"],
        key: "exaone.attention.layer_norm_rms_epsilon",
        value: Some(("f32", || json!(9.999_999_747_378_752e-6))),
    },
    Difference {
        checkpoints: &["qwen"],
        key: "qwen.attention.layer_norm_rms_epsilon",
        value: Some(("f32", || json!(9.999_999_974_752_427e-7))),
    },
    Difference {
        checkpoints: &["phi2", "phi2-old"],
        key: "phi2.feed_forward_length",
        value: Some(("u32", || json!(24))),
    },
    Difference {
        checkpoints: &["granite4-dense", "granite4-dense-old"],
        key: "granite.feed_forward_length",
        value: Some(("u32", || json!(40))),
    },
    Difference {
        checkpoints: &["granitehybrid-old"],
        key: "granitehybrid.feed_forward_length",
        value: Some(("u32", || json!(40))),
    },
    Difference {
        checkpoints: &["granite4-dense", "granite4-dense-old"],
        key: "granite.rope.scaling.finetuned",
        value: Some(("bool", || json!(false))),
    },
    Difference {
        checkpoints: &["granite4-moe"],
        key: "granitemoe.rope.scaling.finetuned",
        value: Some(("bool", || json!(false))),
    },
    Difference {
        checkpoints: &["minicpm-longrope"],
        key: "minicpm.rope.scaling.original_context_length",
        value: Some(("u32", || json!(65_536))),
    },
    Difference {
        checkpoints: &["mistral4"],
        key: "mistral4.attention.temperature_scale",
        value: Some(("f32", || json!(0.100_000_001_490_116_12))),
    },
    Difference {
        checkpoints: &["mistral4"],
        key: "mistral4.attention.temperature_length",
        value: Some(("u32", || json!(128))),
    },
    Difference {
        checkpoints: &["deci", "decilm"],
        key: "tokenizer.ggml.add_bos_token",
        value: Some(("bool", || json!(false))),
    },
    Difference {
        checkpoints: &["gemma3-images"],
        key: "tokenizer.ggml.eos_token_id",
        value: Some(("u32", || json!(1))),
    },
    Difference {
        checkpoints: &["gemma3-images"],
        key: "tokenizer.ggml.eot_token_id",
        value: Some(("u32", || json!(2))),
    },
];

/// The differences of a checkpoint.
pub fn of(checkpoint: &str) -> impl Iterator<Item = &'static Difference> {
    DIFFERENCES.iter().filter(move |difference| difference.checkpoints.contains(&checkpoint))
}

/// Takes the keys that differ on purpose out of both lists, ours and the reference's.
///
/// # Panics
///
/// If a key does not differ as documented.
pub fn take(checkpoint: &str, ours: &mut Vec<Json>, theirs: &mut Vec<Json>) {
    for Difference { key, value, .. } in of(checkpoint) {
        let expected = value.map(|(kind, value)| json!([key, kind, value()]));
        let take = |list: &mut Vec<Json>| {
            let place = list.iter().position(|entry| entry[0] == *key);
            place.map(|place| list.remove(place))
        };
        assert_eq!(take(ours), expected, "{checkpoint}: {key}");
        assert_ne!(take(theirs), expected, "{checkpoint}: `{key}` is that of the reference");
    }
}

/// Tensors that the reference leaves out, with the tensors of the checkpoint that they are: `BertForSequenceClassification`
/// computes `classifier(tanh(pooler(first token)))`, and `conversion/bert.py` drops the pooler. llama.cpp needs the output of
/// Qwen 2 mixtures.
pub const ADDED: &[(&str, &str, &str)] = &[
    ("bert-classifier", "cls.bias", "bert.pooler.dense.bias"),
    ("bert-classifier", "cls.weight", "bert.pooler.dense.weight"),
    ("qwen2moe-stacked", "output.weight", "model.embed_tokens.weight"),
];

/// Names of all keys and tensors of a checkpoint that a layout records. Keys of tokenizers are described by their notes.
pub fn names(checkpoint: &str) -> BTreeSet<&'static str> {
    let added = ADDED.iter().filter(|(of, ..)| *of == checkpoint).map(|(_, name, _)| *name);
    let keys = of(checkpoint).map(|difference| difference.key).filter(|key| !key.starts_with("tokenizer."));
    keys.chain(added).collect()
}
