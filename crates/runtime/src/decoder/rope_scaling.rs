//! RoPE scaling, as the keys `rope.scaling.*` state it.
//!
//! YaRN makes attention sharper for longer contexts. With the factor `s` and a multiplier `m`,
//!
//! ```text
//! mscale(s, m) = 0.1 m ln(s) + 1    for s > 1, else 1
//!
//! magnitude = attn_factor * mscale(s, 1) / mscale(s, m)        `yarn_log_multiplier` is m, `mscale_all_dim` of a config
//!           = attn_factor * mscale(s, 1)                       without it
//! ```
//!
//! multiplies cosines and sines, and so scores by its square. DeepSeek's latent attention scales scores too, since only a
//! part of each head rotates, by the square of
//!
//! ```text
//! magnitude * mscale(s, m)                        YaRN; the magnitude is `attn_factor` with `yarn_log_multiplier`
//! attn_factor * (0.1 ln(s) + 1) * mscale(s, m)    linear scaling
//! ```
//!
//! DeepSeek 3 was trained with the first only if `yarn_log_multiplier` is stated, and no model was trained with the second.
//! The reference reads `yarn_attn_factor` and `yarn_ext_factor` for Grok only. The first has no effect on YaRN, and the
//! second is 1 in all published files, the value in other models.
//!
//! Source: the set-up of the factors in `llama_context::llama_context`, llama.cpp of llama-cpp-python 0.3.36.

use super::spec::{Spec, YarnMscale};
use crate::{Error, keys::Keys, ops::RopeScaling};

/// Base of the frequencies of `n_rot` elements: `base * alpha^(n_rot / (n_rot - 2))` with
/// `rope.scaling.alpha` (Hunyuan's images), which slows the slowest pair by alpha and leaves the fastest
/// unchanged.
pub(super) fn base(keys: &Keys<'_>, n_rot: usize) -> Result<f32, Error> {
    let base = keys.float("rope.freq_base")?.unwrap_or(10000.0);
    let Some(alpha) = keys.float("rope.scaling.alpha")?.filter(|alpha| *alpha > 0.0) else { return Ok(base) };
    let n = n_rot as f32;
    let scaled = base * libm::powf(alpha, n / (n - 2.0));
    if n_rot > 2 && scaled.is_finite() && scaled > 0.0 {
        Ok(scaled)
    } else {
        Err(keys.wrong("rope.scaling.alpha", "a factor with which the base stays finite"))
    }
}

/// Reads `rope.scaling.*`.
pub(super) fn read(spec: &Spec, keys: &Keys<'_>) -> Result<RopeScaling, Error> {
    let kind = keys.text("rope.scaling.type")?.unwrap_or("linear");
    let factor = match keys.float("rope.scaling.factor")? {
        Some(factor) => factor,
        // The name in files before the other keys of scaling were there.
        None => keys.float("rope.scale_linear")?.unwrap_or(0.0),
    };
    let mut inverse_factor = if factor == 0.0 { 1.0 } else { 1.0 / factor };
    let is_yarn = match kind {
        "none" => {
            inverse_factor = 1.0;
            false
        }
        "linear" | "longrope" => false,
        "yarn" => true,
        _ => return Err(keys.wrong("rope.scaling.type", "none, linear, yarn or longrope")),
    };
    let original_context = match keys.count("rope.scaling.original_context_length")? {
        Some(n) => n,
        None => keys.need_count("context_length")?,
    };
    let attn_factor = keys.float("rope.scaling.attn_factor")?.unwrap_or(1.0);
    let mscale = |s: f32, m: f32| if s <= 1.0 { 1.0 } else { 0.1 * m * libm::logf(s) + 1.0 };
    let s = 1.0 / inverse_factor;
    let multiplier = keys.float("rope.scaling.yarn_log_multiplier")?.filter(|m| *m != 0.0);
    let scales_scores = spec.yarn_mscale == YarnMscale::Scores;
    // The graph's own factor of `rope_yarn` and the one that cancels it, in one.
    let magnitude = attn_factor
        * match multiplier {
            _ if !is_yarn => 1.0,
            Some(_) if scales_scores => 1.0,
            Some(m) => mscale(s, 1.0) / mscale(s, m),
            None => mscale(s, 1.0),
        };
    let mscale_squared = if scales_scores {
        let of_rotation = if is_yarn { magnitude } else { attn_factor * mscale(s, 1.0) };
        // Files of DeepSeek contain a tenth of m.
        (of_rotation * mscale(s, 10.0 * multiplier.unwrap_or(0.0))).powi(2)
    } else {
        1.0
    };
    let range = |key: &str, built_in: f32| -> Result<f32, Error> {
        if spec.reads_yarn_range { Ok(keys.float(key)?.unwrap_or(built_in)) } else { Ok(built_in) }
    };
    Ok(RopeScaling {
        inverse_factor,
        is_yarn,
        original_context,
        beta_fast: range("rope.scaling.yarn_beta_fast", 32.0)?,
        beta_slow: range("rope.scaling.yarn_beta_slow", 1.0)?,
        magnitude,
        mscale_squared,
    })
}
