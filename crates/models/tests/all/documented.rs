//! Keys of golden checkpoints that differ from the reference on purpose.

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
    /// Why the reference's value is wrong, and the source of ours.
    pub reason: &'static str,
}

/// All differences.
pub const DIFFERENCES: &[Difference] = &[
    Difference {
        checkpoints: &["afmoe", "afmoe-old"],
        key: "afmoe.attention.sliding_window_pattern",
        value: Some(("arr[bool]", || json!([true, false, true, false]))),
        reason: "`layer_types` of the config; without the key llama.cpp takes every fourth layer for a full one",
    },
    Difference {
        checkpoints: &["afmoe"],
        key: "afmoe.expert_weights_norm",
        value: Some(("bool", || json!(true))),
        reason: "the class of transformers normalizes weights and saves no `route_norm`; without the key llama.cpp does not",
    },
    Difference {
        checkpoints: &["deepseek3", "glm4-moe-lite", "glm4-moe-lite-old"],
        key: "deepseek2.expert_gating_func",
        value: Some(("u32", || json!(2))),
        reason: "the class of transformers has sigmoids and saves no `scoring_func`; without the key llama.cpp has a softmax",
    },
    Difference {
        checkpoints: &["deepseek3.2"],
        key: "deepseek32.expert_gating_func",
        value: Some(("u32", || json!(2))),
        reason: "as in DeepSeek 3; llama.cpp does not load a file without the key",
    },
    Difference {
        checkpoints: &["dots1"],
        key: "dots1.expert_gating_func",
        value: Some(("u32", || json!(2))),
        reason: "as in DeepSeek 3; llama.cpp stops at a file without the key",
    },
    Difference {
        checkpoints: &["exaone-moe"],
        key: "exaone-moe.expert_gating_func",
        value: Some(("u32", || json!(2))),
        reason: "as in DeepSeek 3; llama.cpp does not load a file without the key",
    },
    Difference {
        checkpoints: &["minimax-m2"],
        key: "minimax-m2.expert_gating_func",
        value: Some(("u32", || json!(2))),
        reason: "as in DeepSeek 3; llama.cpp stops at a file without the key",
    },
    Difference {
        checkpoints: &["minimax-m3"],
        key: "minimax-m3.expert_gating_func",
        value: Some(("u32", || json!(2))),
        reason: "as in DeepSeek 3; llama.cpp does not load a file without the key",
    },
    Difference {
        checkpoints: &["solar-open"],
        key: "glm4moe.rope.dimension_count",
        value: Some(("u32", || json!(8))),
        reason: "the whole head, as the class of transformers rotates without `partial_rotary_factor`",
    },
    Difference {
        checkpoints: &["bert-classifier"],
        key: "general.size_label",
        value: Some(("str", || json!("32K"))),
        reason: "the pooler, which the reference leaves out, counts",
    },
    Difference {
        checkpoints: &["roberta-classifier"],
        key: "bert.classifier.output_labels",
        value: Some(("arr[str]", || json!(["LABEL_0", "LABEL_1"]))),
        reason: "llama.cpp expects one row of the classifier without labels, and does not load the reference's file",
    },
    Difference {
        checkpoints: &["glm", "glm-old"],
        key: "chatglm.context_length",
        value: Some(("u32", || json!(512))),
        reason: "`max_position_embeddings` of the config; the reference writes `hidden_size`",
    },
    Difference {
        checkpoints: &["glm", "glm-old"],
        key: "chatglm.attention.layer_norm_rms_epsilon",
        value: Some(("f32", || json!(1.562_499_960_527_93e-7))),
        reason: "`rms_norm_eps` of the config; the reference writes a constant",
    },
    Difference {
        checkpoints: &["glm", "glm-old"],
        key: "chatglm.rope.dimension_count",
        value: Some(("u32", || json!(4))),
        reason: "half of `head_dim`; the reference takes hidden_size / num_attention_heads for the head size",
    },
    Difference {
        checkpoints: &["llama-yarn"],
        key: "llama.rope.scaling.attn_factor",
        value: Some(("f32", || json!(0.614_774_227_142_334))),
        reason: "`attention_factor` 0.7 of the config over 1 + 0.1 ln 4; llama.cpp does not read `yarn_attn_factor`",
    },
    Difference {
        checkpoints: &["laguna", "laguna-by-element"],
        key: "laguna.rope.scaling.attn_factor",
        value: Some(("f32", || json!(0.827_852_845_191_955_6))),
        reason: "`attention_factor` 1 of the config over 1 + 0.1 ln 8; llama.cpp does not read `yarn_attn_factor`",
    },
    Difference {
        checkpoints: &["llama-yarn"],
        key: "llama.rope.scaling.yarn_attn_factor",
        value: None,
        reason: "`attn_factor` takes its place",
    },
    Difference {
        checkpoints: &["laguna", "laguna-by-element"],
        key: "laguna.rope.scaling.yarn_attn_factor",
        value: None,
        reason: "`attn_factor` takes its place",
    },
    Difference {
        checkpoints: &["nemotron-old"],
        key: "nemotron.rope.dimension_count",
        value: Some(("u32", || json!(4))),
        reason: "half of `head_dim`; the reference takes hidden_size / num_attention_heads for the head size",
    },
    Difference {
        checkpoints: &["modern-bert", "modern-bert-classifier", "modern-bert-old"],
        key: "modern-bert.attention.layer_norm_epsilon",
        value: Some(("f32", || json!(9.999_999_747_378_752e-6))),
        reason: "`norm_eps` of the config; llama.cpp does not load a file without the key",
    },
    Difference {
        checkpoints: &["deci", "decilm", "xverse"],
        key: "tokenizer.ggml.add_bos_token",
        value: Some(("bool", || json!(false))),
        reason: "tokenizer.json has no post-processor, so transformers adds no BOS; without the key llama.cpp does",
    },
    Difference {
        checkpoints: &["gemma3-images"],
        key: "tokenizer.ggml.eos_token_id",
        value: Some(("u32", || json!(1))),
        reason: "the first id of the list in the config; without the key llama.cpp takes token 2",
    },
    Difference {
        checkpoints: &["gemma3-images"],
        key: "tokenizer.ggml.eot_token_id",
        value: Some(("u32", || json!(2))),
        reason: "the second id of the list in the config, at which transformers ends a generation too",
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
    for Difference { key, value, reason, .. } in of(checkpoint) {
        let expected = value.map(|(kind, value)| json!([key, kind, value()]));
        let take = |list: &mut Vec<Json>| {
            let place = list.iter().position(|entry| entry[0] == *key);
            place.map(|place| list.remove(place))
        };
        assert_eq!(take(ours), expected, "{checkpoint}: {reason}");
        assert_ne!(take(theirs), expected, "{checkpoint}: `{key}` is that of the reference");
    }
}

/// Tensors that the reference leaves out, with the tensors of the checkpoint that they are: `BertForSequenceClassification`
/// computes `classifier(tanh(pooler(first token)))`, and `conversion/bert.py` drops the pooler.
pub const ADDED: &[(&str, &str, &str)] = &[
    ("bert-classifier", "cls.bias", "bert.pooler.dense.bias"),
    ("bert-classifier", "cls.weight", "bert.pooler.dense.weight"),
];
