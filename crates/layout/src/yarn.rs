//! The magnitude of YaRN, in the keys that llama.cpp reads.
//!
//! YaRN multiplies cosines and sines by a magnitude. With the factor `s`, transformers computes
//!
//! ```text
//! mscale(s, m) = 0.1 m ln(s) + 1    for s > 1, else 1
//!
//! magnitude = attention_factor                                        if the config has one
//!           = mscale(s, mscale) / mscale(s, mscale_all_dim)           if it has both of these
//!           = mscale(s, 1)                                            otherwise
//! ```
//!
//! llama.cpp computes `attn_factor * mscale(s, 1)`, or `attn_factor * mscale(s, 1) / mscale(s, m)` if the file states
//! `yarn_log_multiplier` m. It reads `yarn_attn_factor`, the key of the reference, for Grok only.
//!
//! Source: `_compute_yarn_parameters` of transformers 5.24; the set-up of factors in `llama_context::llama_context`.

use gguf_container::Value;
use serde_json::Value as Json;

use crate::ArchError;
use crate::config::{Hparams, Rope};
use crate::keys::Keys;

/// The key of the reference.
const STATED: &str = "rope.scaling.yarn_attn_factor";

/// The key that llama.cpp reads.
const READ: &str = "rope.scaling.attn_factor";

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

/// Writes the factor by which the magnitude of a config differs from that of llama.cpp. `harmless` is
/// [`crate::Arch::harmless`]: a row that lists `attention_factor` writes its own keys for it.
///
/// # Errors
///
/// [`ArchError::BadKey`].
pub fn write_magnitude(hparams: &Hparams, harmless: &[&str], keys: &mut Keys) -> Result<(), ArchError> {
    if harmless.contains(&"rope_parameters.attention_factor") {
        return Ok(());
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
    let magnitude = magnitude(rope, factor)?;
    // Latent attention scales scores instead, and its rotation by 1.
    let is_latent = keys.prefixed("attention.kv_lora_rank").is_some();
    let built_in = match multiplier {
        Some(_) if is_latent => 1.0,
        _ => built_in(factor, multiplier),
    };
    let relative = magnitude / built_in;
    if !relative.is_finite() || (relative - 1.0).abs() < 1e-6 {
        return Ok(());
    }
    if is_latent {
        keys.notes.push(format!(
            "the YaRN magnitude in config.json is {magnitude:.6}, but llama.cpp uses {built_in:.6} for \
                latent attention: results will differ from transformers"
        ));
        return Ok(());
    }
    keys.derived_from(READ, &["rope_parameters.attention_factor"]);
    keys.replace(STATED, READ, Value::F32(relative as f32));
    Ok(())
}

/// The shortest `attention_factor` of which a conversion makes this `attn_factor`.
pub fn attention_factor(attn_factor: f64, built_in: f64) -> Json {
    let exact = attn_factor * built_in;
    let rounded = (1..=12).filter_map(|digits| format!("{exact:.digits$}").parse::<f64>().ok());
    let mut same = rounded.filter(|rounded| (rounded / built_in) as f32 == attn_factor as f32);
    same.next().unwrap_or(exact).into()
}
