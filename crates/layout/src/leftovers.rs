//! Tensors that training leaves in a checkpoint: value heads, pairs of adapters that were not merged, heads of classifiers, and
//! layers beyond those that the config counts.

use gguf_types::list_names;

use crate::ArchError;
use crate::layout::Dropped;

/// Why a value head is left out.
pub const VALUE_HEAD: &str = "value head, used only in training";
/// Beginnings of the names of value heads: TRL, LLaMA-Factory, OpenRLHF.
const VALUE_HEADS: &[&str] = &["v_head.", "value_head."];
/// Beginnings of the names of other heads that score or classify.
const SCORE_HEADS: &[&str] = &[
    "score.",
    "score_head.",
    "classifier.",
    "classification_head.",
    "reward_head.",
    "regression_head.",
    "regression_layer.",
    "rm_head.",
    "qa_outputs.",
];
/// Parts of names that PEFT gives to weights that an adapter wraps, and to the adapter's own.
const ADAPTER_PARTS: &[&str] = &[
    ".base_layer.",
    ".lora_A.",
    ".lora_B.",
    ".lora_embedding_A",
    ".lora_embedding_B",
    ".lora_magnitude_vector",
    ".modules_to_save.",
    ".original_module.",
    ".hada_w",
    ".lokr_w",
    ".oft_",
    ".boft_",
    ".ia3_l",
    ".vera_lambda_",
    ".token_adapter.",
];
/// Endings of class names whose output is a score or a label.
const CLASSIFIER_CLASSES: &[&str] = &[
    "ForSequenceClassification",
    "ForTokenClassification",
    "ForQuestionAnswering",
    "ForMultipleChoice",
    "ForTextClassification",
    "ForScore",
    "RewardModel",
];

/// True for a class whose models score or classify.
pub fn is_classifier_class(class: &str) -> bool {
    CLASSIFIER_CLASSES.iter().any(|ending| class.ends_with(ending))
}

/// True for a tensor of a head that scores or classifies.
pub fn is_score_head(name: &str) -> bool {
    SCORE_HEADS.iter().chain(VALUE_HEADS).any(|start| name.starts_with(start))
}

/// Why a tensor is left out that only training needs.
pub fn reason(name: &str) -> Option<&'static str> {
    match () {
        () if VALUE_HEADS.iter().any(|start| name.starts_with(start)) => Some(VALUE_HEAD),
        () if name.ends_with("._extra_state") => Some("state of Transformer Engine, not a weight"),
        () => None,
    }
}

/// A note about value heads that are left out.
pub fn dropped_heads(dropped: &[Dropped]) -> Option<String> {
    let heads = dropped.iter().filter(|dropped| dropped.reason == VALUE_HEAD);
    let names: Vec<String> = heads.map(|dropped| dropped.name.clone()).collect();
    (!names.is_empty()).then(|| format!("omitted, used only in training: value head {}", list_names(&names)))
}

/// Layers of a checkpoint and of its config.
pub struct Counted<'a> {
    /// Layers of tensors that only the number of layers excludes.
    pub beyond: &'a [u64],
    /// Key of the number of layers.
    pub key: &'static str,
    /// Its value.
    pub n_layers: u64,
    /// First counted layer without tensors.
    pub gap: Option<u64>,
}

/// The error for tensors without a place. `dense` is the key of the config that leaves some layers without experts.
pub fn unused(names: Vec<String>, layers: &Counted<'_>, dense: Option<&'static str>) -> ArchError {
    let Counted { beyond, key, n_layers, gap } = *layers;
    let is_adapter_part = |name: &&String| ADAPTER_PARTS.iter().any(|part| name.contains(part));
    let adapter_names: Vec<String> = names.iter().filter(is_adapter_part).cloned().collect();
    if !adapter_names.is_empty() {
        return ArchError::UnmergedAdapter { names: adapter_names };
    }
    if names.iter().all(|name| is_score_head(name)) {
        return ArchError::Classifier { class: None, heads: names };
    }
    // MTP layers have a separate hint.
    let predicts = names.iter().any(|name| name.contains(".eh_proj."));
    match beyond.iter().max() {
        Some(last)
            if beyond.len() == names.len() && beyond.iter().all(|layer| *layer >= n_layers) && !predicts =>
        {
            ArchError::MoreLayers { key, n_tensors: names.len(), last: *last, n_layers, gap }
        }
        _ => ArchError::UnusedTensors { names, dense },
    }
}
