//! The magnitude of YaRN, in the keys that llama.cpp reads.
//!
//! YaRN multiplies cosines and sines by a magnitude. With the factor `s`, transformers computes
//!
//! ```text
//! mscale(s, m) = 0.1 m ln(s) + 1    for s > 1, else 1
//!
//! magnitude = attention_factor                                        if the config has one
//!           = mscale(s, mscale) / mscale(s, mscale_all_dim)           if it has both
//!           = mscale(s, 1)                                            otherwise
//! ```
//!
//! llama.cpp computes `attn_factor * mscale(s, 1)`, or `attn_factor * mscale(s, 1) / mscale(s, m)` if the file states
//! `yarn_log_multiplier` m. It reads `yarn_attn_factor`, the key of the reference, for Grok only.
//!
//! Latent attention scales scores too. transformers multiplies them by `mscale(s, mscale_all_dim)^2`, or by 1 without that
//! key. llama.cpp multiplies them by `(magnitude * mscale(s, mscale_all_dim))^2`, with linear scaling by `mscale(s, 1)^2`; its
//! magnitude is 1 with `mscale_all_dim`.
//!
//! Source: `_compute_yarn_parameters` of transformers 5.24; the set-up of factors in `llama_context::llama_context`.

use gguf_container::Value;
use serde_json::Value as Json;

use crate::ArchError;
use crate::config::{Hparams, Rope};
use crate::departure::{YARN_MAGNITUDE, YARN_STATED};
use crate::keys::Keys;

/// The key of the reference.
const STATED: &str = YARN_STATED.subject;

/// The key that llama.cpp reads.
const READ: &str = YARN_MAGNITUDE.subject;

/// Values that the graph of an architecture in llama.cpp multiplies by the magnitude.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum YarnScales {
    /// The rotation in all layers.
    Rotation,
    /// The rotation in layers of full attention.
    RotationOfFullLayers,
    /// The rotation, and the scores of latent attention.
    RotationAndScores,
    /// As `RotationAndScores`, by factors that depend on `yarn_log_multiplier`.
    RotationAndScoresByMultiplier,
    /// The scores of latent attention, by a factor that depends on `yarn_log_multiplier`.
    ScoresByMultiplier,
}

/// `0.1 m ln(s) + 1` for a factor above 1.
fn mscale(factor: f64, multiplier: f64) -> f64 {
    if factor <= 1.0 { 1.0 } else { 0.1 * multiplier * factor.ln() + 1.0 }
}

/// The magnitude that llama.cpp computes if `attn_factor` is 1.
pub fn built_in(factor: f64, log_multiplier: Option<f64>) -> f64 {
    mscale(factor, 1.0) / log_multiplier.filter(|m| *m != 0.0).map_or(1.0, |m| mscale(factor, m))
}

/// The magnitude that transformers computes.
fn magnitude(rope: Rope<'_>, factor: f64) -> Result<f64, ArchError> {
    let number = |key: &str| rope.get(key).map(|_| rope.f64_or(key, 0.0)).transpose();
    if let Some(stated) = number("attention_factor")? {
        return Ok(stated);
    }
    let multipliers = (number("mscale")?.unwrap_or(0.0), number("mscale_all_dim")?.unwrap_or(0.0));
    Ok(match multipliers {
        (m, all) if m != 0.0 && all != 0.0 => mscale(factor, m) / mscale(factor, all),
        _ => mscale(factor, 1.0),
    })
}

/// Writes the factor by which the magnitude of a config differs from that of llama.cpp. `harmless` and `scales` are those of
/// [`crate::Arch`]: a row that lists `attention_factor` as harmless writes its own keys for it.
///
/// # Errors
///
/// [`ArchError::BadKey`].
pub fn write_magnitude(
    hparams: &Hparams,
    harmless: &[&str],
    scales: YarnScales,
    keys: &mut Keys,
) -> Result<(), ArchError> {
    if harmless.contains(&"rope_parameters.attention_factor") {
        return Ok(());
    }
    if keys.prefixed("attention.kv_lora_rank").is_some() {
        return note_latent(scales, hparams, keys);
    }
    let rope = hparams.rope();
    let is_yarn = keys.prefixed("rope.scaling.type").is_some_and(|kind| *kind == Value::from("yarn"));
    let factor = match keys.prefixed("rope.scaling.factor") {
        Some(Value::F32(factor)) if is_yarn && rope.kind() == Some("yarn") => f64::from(*factor),
        _ => return Ok(()),
    };
    let multiplier = match keys.prefixed("rope.scaling.yarn_log_multiplier") {
        Some(Value::F32(multiplier)) => Some(f64::from(*multiplier)),
        _ => None,
    };
    let relative = magnitude(rope, factor)? / built_in(factor, multiplier);
    if !relative.is_finite() || is_one(relative) {
        return Ok(());
    }
    if hparams.rope_sliding().is_some() && scales != YarnScales::RotationOfFullLayers {
        keys.warnings.push(
            "llama.cpp scales rotation in layers with a sliding window by the YaRN magnitude of the others \
                (`rope_parameters.attention_factor`): results will differ from transformers"
                .into(),
        );
    }
    keys.derived_from(READ, &["rope_parameters.attention_factor"]);
    if keys.prefixed(STATED).is_some() {
        keys.departs(&YARN_STATED);
    }
    keys.departs(&YARN_MAGNITUDE);
    keys.replace(STATED, READ, Value::F32(relative as f32));
    Ok(())
}

fn is_one(ratio: f64) -> bool {
    (ratio - 1.0).abs() < 1e-6
}

/// Notes that latent attention is scaled by other factors in llama.cpp. No keys exist for them.
fn note_latent(scales: YarnScales, hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    let (rope, architecture) = (hparams.rope(), keys.architecture());
    let is_yarn = match keys.prefixed("rope.scaling.type") {
        Some(kind) if *kind == Value::from("yarn") => true,
        Some(kind) if *kind == Value::from("linear") => false,
        _ => return Ok(()),
    };
    let Some(Value::F32(factor)) = keys.prefixed("rope.scaling.factor") else { return Ok(()) };
    let factor = f64::from(*factor);
    let all = rope.f64_or("mscale_all_dim", 0.0)?;
    let stated_rotation = if is_yarn { magnitude(rope, factor)? } else { 1.0 };
    let stated_scores = mscale(factor, all).powi(2);
    let all = match scales {
        YarnScales::RotationAndScoresByMultiplier | YarnScales::ScoresByMultiplier => all,
        _ => 0.0,
    };
    let rotation = match scales {
        _ if !is_yarn => 1.0,
        YarnScales::ScoresByMultiplier if all != 0.0 => 1.0,
        _ => built_in(factor, Some(all)),
    };
    let of_scores = if is_yarn { rotation } else { mscale(factor, 1.0) };
    let scores = match scales {
        YarnScales::Rotation | YarnScales::RotationOfFullLayers => 1.0,
        _ => (of_scores * mscale(factor, all)).powi(2),
    };
    if !is_one(stated_rotation / rotation) || !is_one(stated_scores / scores) {
        keys.warnings.push(format!(
            "config option `rope_parameters` scales rotation by {stated_rotation:.6} and scores by {stated_scores:.6}, but \
                llama.cpp computes `{architecture}` with {rotation:.6} and {scores:.6}: results will differ from \
                transformers"
        ));
    }
    Ok(())
}

/// The shortest `attention_factor` of which a conversion makes this `attn_factor`.
pub fn attention_factor(attn_factor: f64, built_in: f64) -> Json {
    let exact = attn_factor * built_in;
    let rounded = (1..=12).filter_map(|digits| format!("{exact:.digits$}").parse::<f64>().ok());
    let mut same = rounded.filter(|rounded| (rounded / built_in) as f32 == attn_factor as f32);
    same.next().unwrap_or(exact).into()
}
