//! Config keys that no row reads.
//!
//! A config key that nothing reads may be irrelevant (dropout), or change the mathematics in a way that the
//! file then lacks: a logit factor, a window, another activation. Such keys are reported. A key with the
//! default of its config class is not reported: the architecture was written for that value.

use serde_json::{Map, Value as Json};

use crate::config::{Hparams, classes::ConfigClass, full_name};
use crate::layout::UnreadKey;
use crate::text_part::text_config;

/// Parts of key names that change the result of a model. Biases are not among them: if there is one, its
/// tensor shows it.
const MATHEMATICS: &[&str] = &[
    "_act",
    "activation",
    "alpha",
    "beta",
    "causal",
    "clip",
    // Those of a file next to the config, for a head.
    "decision.",
    "factor",
    "gate",
    "gating",
    "gamma",
    "layer_types",
    "limit",
    "multiplier",
    "norm",
    "residual",
    "rope",
    "rotary",
    "rout",
    "scal",
    "sink",
    "softcap",
    "temperature",
    "_type",
    "window",
];

/// Keys about training, about loading or about heads that are not converted, and flags of norms that have tensors, though
/// their names have something of the above.
const HARMLESS: &[&str] = &[
    "_sliding_window_pattern",
    "aux_loss_alpha",
    "bias",
    "initializer_cutoff_factor",
    "initializer_factor",
    "model_type",
    "output_router_logits",
    "problem_type",
    "qk_layernorm",
    "residual_in_fp32",
    "rope_parameters.finetuned",
    "rope_parameters.max_position_embeddings",
    // Old name of `rope_type`, which is read.
    "rope_parameters.type",
    "router_aux_loss_coef",
    "router_jitter_noise",
    "summary_type",
    "use_qk_norm",
    "use_routing_bias",
];

/// Config keys that were never read from `hparams`, in their order. `class` has the defaults for which the
/// architecture was written, `harmless` is [`crate::Arch::harmless`].
pub(crate) fn unread_keys(
    hparams: &Hparams,
    config: &Json,
    class: Option<&ConfigClass>,
    harmless: &[&str],
) -> Vec<UnreadKey> {
    let part = text_config(config).unwrap_or(config);
    // Without this switch the windows of the Qwen 2 line are not used.
    let has_no_window = part.get("use_sliding_window").is_some_and(|on| *on == Json::Bool(false));
    let mut unread_keys: Vec<UnreadKey> = Vec::new();
    let mut report = |key: String, value: &Json| {
        let is_known = hparams.was_asked(&key)
            || HARMLESS.contains(&key.as_str())
            // An entry of a row may be about one value only: `hidden_act=silu`.
            || harmless.iter().any(|entry| fits(entry, &key, value))
            || unread_keys.iter().any(|known| known.key == key);
        if is_known || value.is_null() {
            return;
        }
        let is_unused = has_no_window && key.contains("window");
        // `false`, 0 and 1 change something if the class has another default.
        let field = class.and_then(|class| class.field(&key));
        let is_changed =
            field.is_some_and(|field| !field.default.is_null()) && !value.is_array() && !value.is_string();
        let is_neutral = !is_changed && is_neutral(&key, value);
        // Parts of names decide, so that unknown keys are reported as loudly.
        let is_mathematics = !is_unused && !is_neutral && MATHEMATICS.iter().any(|part| key.contains(part));
        unread_keys.push(UnreadKey { key, value: value.clone(), is_mathematics });
    };
    for (key, value) in part.as_object().into_iter().flatten() {
        match value {
            Json::Object(inner) if ["rope_parameters", "rope_scaling"].contains(&key.as_str()) => {
                for (key, value) in by_layer_type(inner) {
                    report(format!("rope_parameters.{key}"), value);
                }
            }
            // Parts of a model that are not text, labels.
            Json::Object(_) => {}
            _ if class.is_some_and(|class| class.has_default(key, value)) => {}
            _ => {
                // Rows ask for the name of the class, a file may have the older one.
                report(full_name(class.map_or(key.as_str(), |class| class.full_name(key))), value);
            }
        }
    }
    unread_keys
}

/// Rotary parameters, those of each kind of layer too.
fn by_layer_type(rope: &Map<String, Json>) -> impl Iterator<Item = (&String, &Json)> {
    rope.iter().flat_map(|(key, value)| match value {
        // {"sliding_attention": {"rope_theta": ..}}: the keys inside count.
        Json::Object(inner) => inner.iter().collect(),
        _ => vec![(key, value)],
    })
}

/// True if an entry of [`crate::Arch::harmless`] names this key, and this value if it names one.
fn fits(entry: &str, key: &str, value: &Json) -> bool {
    match (entry.split_once('='), value) {
        (None, _) => entry == key,
        // Text is compared as it stands, all else as JSON (`=true`).
        (Some((of, expected)), Json::String(text)) => of == key && expected == text,
        (Some((of, expected)), value) => {
            of == key && serde_json::from_str::<Json>(expected).is_ok_and(|expected| expected == *value)
        }
    }
}

/// True if a value enables nothing: false, null, 0, a factor of 1, full attention, the usual choice.
fn is_neutral(key: &str, value: &Json) -> bool {
    match value {
        Json::Number(number) if key == "rope_parameters.rope_theta" => number.as_f64() == Some(10_000.0),
        Json::Number(number) => [0.0, 1.0].map(Some).contains(&number.as_f64()),
        Json::Array(items) => items.iter().all(|item| item == "full_attention"),
        Json::String(text) => ["", "none", "default"].contains(&text.as_str()),
        // Graphs without a key for it may normalize the weights of experts always.
        Json::Bool(false) => !key.starts_with("norm_topk_prob"),
        _ => false,
    }
}
