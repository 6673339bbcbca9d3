//! Keys of golden checkpoints that differ from the reference on purpose.

use serde_json::{Value as Json, json};

/// A key with another value than in the reference's file, or one that the reference does not write.
pub struct Difference {
    /// Names of checkpoints, without `-old` and other endings.
    pub checkpoints: &'static [&'static str],
    /// The metadata key.
    pub key: &'static str,
    /// Type and value in our file, as in `expected.json`.
    pub value: (&'static str, fn() -> Json),
    /// Why the reference's value is wrong, and the source of ours.
    pub reason: &'static str,
}

/// All differences.
pub const DIFFERENCES: &[Difference] = &[
    Difference {
        checkpoints: &["afmoe"],
        key: "afmoe.attention.sliding_window_pattern",
        value: ("arr[bool]", || json!([true, false, true, false])),
        reason: "`layer_types` of the config; without the key llama.cpp takes every fourth layer for a full one",
    },
    Difference {
        checkpoints: &["glm"],
        key: "chatglm.context_length",
        value: ("u32", || json!(512)),
        reason: "`max_position_embeddings` of the config; the reference writes `hidden_size`",
    },
    Difference {
        checkpoints: &["glm"],
        key: "chatglm.attention.layer_norm_rms_epsilon",
        value: ("f32", || json!(1.562_499_960_527_93e-7)),
        reason: "`rms_norm_eps` of the config; the reference writes a constant",
    },
    Difference {
        checkpoints: &["glm"],
        key: "chatglm.rope.dimension_count",
        value: ("u32", || json!(4)),
        reason: "half of `head_dim`; the reference takes hidden_size / num_attention_heads for the head size",
    },
    Difference {
        checkpoints: &["modern-bert"],
        key: "modern-bert.attention.layer_norm_epsilon",
        value: ("f32", || json!(9.999_999_747_378_752e-6)),
        reason: "`norm_eps` of the config; llama.cpp does not load a file without the key",
    },
];

/// The differences of a checkpoint.
pub fn of(checkpoint: &str) -> impl Iterator<Item = &'static Difference> {
    DIFFERENCES.iter().filter(move |difference| {
        let is_one = |name: &&str| {
            let rest = checkpoint.strip_prefix(*name);
            rest.is_some_and(|rest| ["", "-old", "-classifier"].contains(&rest))
        };
        difference.checkpoints.iter().any(is_one)
    })
}

/// Takes the keys that differ on purpose out of both lists, ours and the reference's.
///
/// # Panics
///
/// If a key does not differ as documented.
pub fn take(checkpoint: &str, ours: &mut Vec<Json>, theirs: &mut Vec<Json>) {
    for Difference { key, value: (kind, value), reason, .. } in of(checkpoint) {
        let expected = json!([key, kind, value()]);
        let place = ours.iter().position(|entry| entry[0] == *key);
        let entry = place.map(|place| ours.remove(place));
        assert_eq!(entry, Some(expected.clone()), "{checkpoint}: {reason}");
        if let Some(place) = theirs.iter().position(|entry| entry[0] == *key) {
            assert_ne!(theirs.remove(place), expected, "{checkpoint}: `{key}` is that of the reference");
        }
    }
}
