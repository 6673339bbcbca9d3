//! EXAONE 4, and the text part of EXAONE 4.5.
//!
//! Config keys: those of every text model, `vocab_size`, `sliding_window` and which layers have it; of 4.5 the layers of
//! multi-token prediction.
//!
//! Transforms: rotary scaling of type `llama3` becomes the computed tensor `rope_freqs`. The prediction's tensors,
//! `mtp.`, follow the last layer.
//!
//! Source: `Exaone4Model` and `Exaone4_5_TextModel` in `conversion/exaone.py`.

use crate::families::glm::convert::glm4moe::{self, PREDICTED};
use crate::families::llama::convert::llama;
use crate::families::qwen::convert::qwen3next;
use crate::prelude::*;

pub const EXAONE4: Arch = Arch {
    name: "exaone4",
    classes: &[Class::new("Exaone4ForCausalLM")],
    example: "LGAI-EXAONE/EXAONE-4.0-32B",
    configs: &[EXAONE4_CONFIG],
    tensors: &[rules::DECODER_ENDS, rules::POST_NORMS, rules::ATTENTION, rules::QK_NORMS, rules::GATED_MLP],
    keys,
    computed: llama::computed,
    built_in: &[BuiltIn::unless("sliding_window", "windows only in models of 64 layers", |hparams, _| {
        hparams.derived.trunk_layers.or(hparams.n_layers().ok()) == Some(64)
    })],
    ..DECODER
};

/// The row of EXAONE 4.5.
pub const EXAONE4_5: Arch = Arch {
    name: "exaone4_5",
    written: Some("exaone4"),
    classes: &[Class::wrapper("Exaone4_5_ForConditionalGeneration")],
    example: "LGAI-EXAONE/EXAONE-4.5-33B",
    configs: &[EXAONE4_5_CONFIG],
    tensors: &[
        rules::DECODER_ENDS,
        rules::POST_NORMS,
        rules::ATTENTION,
        rules::QK_NORMS,
        rules::GATED_MLP,
        glm4moe::PREDICTION,
    ],
    keys: |hparams, keys| {
        self::keys(hparams, keys)?;
        keys.count("nextn_predict_layers", hparams, &[PREDICTED])
    },
    drops: |hparams, name| {
        let is_announced = hparams.derived.trunk_layers.is_some();
        (name.starts_with("mtp.") && !is_announced)
            .then_some("config.json does not specify multi-token prediction")
    },
    rename: |hparams, name| qwen3next::rename(hparams, name.strip_prefix("model.").unwrap_or(name)),
    export_name: |hparams, _, name| qwen3next::export_name(hparams, name),
    prepare: count_predicted,
    from_file: |file, config| {
        let slides = file.flags("attention.sliding_window_pattern").unwrap_or_default();
        config.insert("layer_types".into(), kinds(&slides, ["sliding_attention", "full_attention"]));
        set(config, PREDICTED, file.count("nextn_predict_layers"));
    },
    ..EXAONE4
};

/// Counts the layer of the prediction among the others, if the config announces one and the checkpoint has it.
pub fn count_predicted(hparams: Hparams, tensors: &[SourceTensor]) -> Result<Hparams, ArchError> {
    let trunk = hparams.n_layers()?;
    let first = format!("model.layers.{trunk}.");
    let is_part = |name: &str| name.starts_with("mtp.") || name.starts_with(&first);
    // transformers leaves the prediction out on saving.
    if !tensors.iter().any(|tensor| is_part(&tensor.name)) {
        let predicted = hparams.get_u64(PREDICTED)?.unwrap_or(0);
        return Ok(glm4moe::without_predicted(hparams, PREDICTED, predicted));
    }
    match hparams.get_u64(PREDICTED)? {
        None | Some(0) => Ok(hparams.without(PREDICTED)),
        Some(1) => {
            let mut hparams = hparams.with("num_hidden_layers", trunk.saturating_add(1).into());
            hparams.derived.trunk_layers = Some(trunk);
            Ok(hparams)
        }
        Some(more) => Err(bad(PREDICTED, &more.into(), "1")),
    }
}

/// `Exaone4_5_Config`: text and images.
const EXAONE4_5_CONFIG: ConfigClass =
    ConfigClass::new("exaone4_5").adjusted(|map| adjust::text_config(map, &EXAONE4_CONFIG));

/// `Exaone4Config`.
pub const EXAONE4_CONFIG: ConfigClass = ConfigClass::new("exaone4").adjusted(config);

/// Sliding layers. The class cannot compute a pattern of letters, or no pattern without a list of layers.
pub fn config(map: &mut Map<String, Json>) -> Result<(), String> {
    // The 1.2B model has no window: then no layer slides, and the class sets the pattern to 0.
    if map.get("sliding_window").is_none_or(Json::is_null) {
        map.insert("sliding_window_pattern".into(), 0.into());
    }
    if map.get("layer_types").is_some_and(|types| !types.is_null()) {
        return Ok(());
    }
    // The 32B model spells the pattern LLLG (three local layers, one global), which transformers 5
    // cannot turn into a list.
    match adjust::count(map, "sliding_window_pattern") {
        Some(pattern) => adjust::layer_pattern(map, pattern),
        None => Err("`sliding_window_pattern` is not a number".into()),
    }
}

/// Keys of every text model, the size of the vocabulary, the sliding window and its layers.
pub fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    text_keys(hparams, keys)?;
    keys.vocab_size(hparams)?;
    if hparams.get("sliding_window").is_none() {
        return Ok(());
    }
    keys.count("attention.sliding_window", hparams, &["sliding_window"])?;
    if let Some(pattern) = hparams.sliding_layers().or(pattern(hparams)?) {
        keys.set_prefixed("attention.sliding_window_pattern", Value::Array(Array::Bool(pattern)));
    }
    Ok(())
}

/// Sliding layers, by `LLLG` or by a period.
fn pattern(hparams: &Hparams) -> Result<Option<Vec<bool>>, ArchError> {
    // The number comes out of a file; no known model has a hundredth of this bound.
    let n_layers = hparams.derived.trunk_layers.map_or_else(|| hparams.n_layers(), Ok)?.min(10_000);
    Ok(match hparams.get("sliding_window_pattern") {
        Some(Json::String(letters)) if !letters.is_empty() => {
            Some(letters.chars().cycle().take(n_layers as usize).map(|letter| letter == 'L').collect())
        }
        Some(period) => period
            .as_u64()
            .filter(|period| *period > 0)
            // Layers are counted from 1: with period 4 the fourth, eighth, ... use full attention.
            .map(|period| (1..=n_layers).map(|layer| !layer.is_multiple_of(period)).collect()),
        None => None,
    })
}
