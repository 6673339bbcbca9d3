//! EXAONE 4.
//!
//! Config keys: those of every text model, `vocab_size`, `sliding_window` and which layers have it.
//!
//! Transforms: none. Rotary scaling of type `llama3` becomes the computed tensor `rope_freqs`.
//!
//! Source: `Exaone4Model` in `conversion/exaone.py`.

use crate::models::llama;
use crate::models::prelude::*;

/// The row.
pub const EXAONE4: Arch = Arch {
    name: "exaone4",
    classes: &[Class::new("Exaone4ForCausalLM")],
    example: "LGAI-EXAONE/EXAONE-4.0-32B",
    configs: &[EXAONE4_CONFIG],
    tensors: &[rules::DECODER_ENDS, rules::POST_NORMS, rules::ATTENTION, rules::QK_NORMS, rules::GATED_MLP],
    keys,
    computed: llama::computed,
    ..DECODER
};

/// `Exaone4Config` of transformers 5.23.
const EXAONE4_CONFIG: ConfigClass = ConfigClass {
    model_type: "exaone4",
    fields: &[
        &[
            ("vocab_size", INT, Int(102_400)),
            ("intermediate_size", INT, Int(16384)),
            ("num_key_value_heads", INT, Int(32)),
            ("max_position_embeddings", INT, Int(2048)),
            ("rms_norm_eps", FLOAT, Float(1e-5)),
            ("bos_token_id", INT | NULL, Int(0)),
            ("attention_dropout", INT | FLOAT, Float(0.0)),
            ("sliding_window", INT | NULL, Int(4096)),
            ("sliding_window_pattern", INT | TEXT | NULL, Int(4)),
            ("layer_types", NULL | TEXTS, Null),
        ],
        DECODER_FIELDS,
    ],
    adjust: config,
    ..BASE
};

/// A pattern of letters, or none without a list of layers, is more than the class can compute.
fn config(map: &mut Map<String, Json>) -> Result<(), String> {
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

fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
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

/// Which layers slide, by `LLLG` or by a period.
fn pattern(hparams: &Hparams) -> Result<Option<Vec<bool>>, ArchError> {
    // The number comes out of a file; no known model has a hundredth of this bound.
    let n_layers = hparams.n_layers()?.min(10_000);
    Ok(match hparams.get("sliding_window_pattern") {
        Some(Json::String(letters)) if !letters.is_empty() => {
            Some(letters.chars().cycle().take(n_layers as usize).map(|letter| letter == 'L').collect())
        }
        Some(period) => period
            .as_u64()
            .filter(|period| *period > 0)
            // Layers are counted from 1: with period 4 the fourth, eighth, ... see everything.
            .map(|period| (1..=n_layers).map(|layer| !layer.is_multiple_of(period)).collect()),
        None => None,
    })
}
