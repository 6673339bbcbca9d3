//! Rotary parameters of a config, from keys and from the tensors that scaling has become.
//!
//! Inverse of the rotary part of `TextModel.set_gguf_parameters` in `conversion/base.py` and of
//! `LlamaModel.generate_extra_tensors` in `conversion/llama.py`.

use gguf_container::{Array, Value};
use serde_json::{Map, Value as Json, json};

use super::error::ExportError;
use super::layout::{ArchFile, text};
use crate::yarn;

/// The tensor that Llama 3's rotary scaling becomes.
const ROPE_FREQS: &str = "rope_freqs.weight";

/// Rotary parameters, in both spellings.
pub fn write(file: &ArchFile<'_>, config: &mut Map<String, Json>) -> Result<(), ExportError> {
    let input = file.input;
    let own = |key: &str| format!("rope.{key}");
    let theta = file.number(&own("freq_base"))?.unwrap_or(10_000.0);
    let mut scaling = Map::new();
    let kind = text(input.metadata, &file.key("rope.scaling.type"))?;
    // Before types were written there was only the linear one.
    let factor = match file.number(&own("scaling.factor"))? {
        None => file.number(&own("scale_linear"))?,
        factor => factor,
    };
    let mut set = |key: &str, value: Json| scaling.insert(key.to_owned(), value);
    // longrope's factors are two tensors.
    if let Some([long, short]) = &input.rope_factors {
        let factors = |factors: &[f32]| -> Json {
            factors.iter().map(|factor| factor.to_string().parse::<f64>().unwrap_or(1.0)).collect()
        };
        set("rope_type", "longrope".into());
        set("long_factor", factors(long));
        set("short_factor", factors(short));
        if let Some(length) = file.count(&own("scaling.original_context_length"))? {
            set("original_max_position_embeddings", length.into());
            config.insert("original_max_position_embeddings".to_owned(), length.into());
        }
    }
    match (kind.as_deref(), factor) {
        _ if input.rope_factors.is_some() => {}
        (None, None) | (Some("none"), _) => {}
        (None | Some("linear"), Some(factor)) => {
            set("rope_type", "linear".into());
            set("factor", factor.into());
        }
        (Some("yarn"), Some(factor)) => {
            set("rope_type", "yarn".into());
            set("factor", factor.into());
            set(
                "original_max_position_embeddings",
                file.need_count(&own("scaling.original_context_length"))?.into(),
            );
            write_yarn(file, factor, &mut scaling)?;
        }
        (kind, _) => {
            let subject = format!("rotary scaling of type `{}`", kind.unwrap_or("none"));
            return Err(ExportError::NotExpressible { subject });
        }
    }
    // How many of the rotated pairs turn by time, height and width; the fourth number is no model's.
    if let Some(Value::Array(Array::I32(sections))) = file.get("rope.dimension_sections") {
        let n = sections.iter().rposition(|n| *n != 0).map_or(0, |last| last + 1);
        if scaling.is_empty() {
            scaling.insert("rope_type".to_owned(), "default".into());
        }
        scaling.insert("mrope_section".to_owned(), json!(sections[..n.max(sections.len().min(3))]));
    }
    // Llama 3's scaling has no keys, only a tensor. One of ones has no effect.
    config.insert("rope_theta".to_owned(), theta.into());
    if let Some(part) = input.rope_freqs.as_deref().and_then(rotated_part) {
        scaling.insert("rope_type".to_owned(), "proportional".into());
        scaling.insert("partial_rotary_factor".to_owned(), part.into());
    } else if let Some(freqs) =
        input.rope_freqs.as_deref().filter(|freqs| freqs.iter().any(|freq| *freq != 1.0))
    {
        if !scaling.is_empty() {
            return Err(ExportError::NotExpressible {
                subject: "`rope_freqs.weight` together with rotary scaling".to_owned(),
            });
        }
        scaling = llama3(file, config, freqs)?;
    }
    write_parameters(config, scaling);
    Ok(())
}

/// Adds the parameters of YaRN other than factor and original length.
fn write_yarn(file: &ArchFile<'_>, factor: f64, scaling: &mut Map<String, Json>) -> Result<(), ExportError> {
    let own = |key: &str| format!("rope.scaling.{key}");
    let mut set = |key: &str, value: Json| scaling.insert(key.to_owned(), value);
    for (key, of) in [
        ("extrapolation_factor", "yarn_ext_factor"),
        ("attention_factor", "yarn_attn_factor"),
        ("beta_fast", "yarn_beta_fast"),
        ("beta_slow", "yarn_beta_slow"),
        ("mscale_all_dim", "yarn_log_multiplier"),
    ] {
        if let Some(value) = file.number(&own(of))? {
            set(key, value.into());
        }
    }
    let multiplier = file.number(&own("yarn_log_multiplier"))?;
    // transformers uses both multipliers or neither; llama.cpp takes the other one for 1.
    if multiplier.is_some_and(|multiplier| multiplier != 0.0) {
        set("mscale", 1.0.into());
    }
    if let Some(stated) = file.number(&own("attn_factor"))? {
        set("attention_factor", yarn::attention_factor(stated, yarn::built_in(factor, multiplier)));
    }
    // Ministral 3 has it among the rotary parameters of its config.
    if let Some(value) = file.number("attention.temperature_scale")? {
        set("llama_4_scaling_beta", value.into());
    }
    Ok(())
}

/// The part of a head that is rotated, if the divisors of the rest are so large that it does not turn (Gemma 4).
fn rotated_part(freqs: &[f32]) -> Option<f64> {
    const STILL: f32 = 1e30;
    let rotated = freqs.iter().take_while(|freq| **freq == 1.0).count();
    let rest = freqs.get(rotated..).filter(|rest| !rest.is_empty())?;
    rest.iter().all(|freq| *freq == STILL).then(|| rotated as f64 / freqs.len() as f64)
}

fn write_parameters(config: &mut Map<String, Json>, scaling: Map<String, Json>) {
    let theta = config.get("rope_theta").cloned().unwrap_or_default();
    let mut parameters = scaling.clone();
    if parameters.is_empty() {
        parameters.insert("rope_type".to_owned(), "default".into());
    }
    parameters.insert("rope_theta".to_owned(), theta);
    config.insert("rope_parameters".to_owned(), Json::Object(parameters));
    // Transformers 4 reads this one; 5 takes it, with the flat theta, as the same.
    config.insert(
        "rope_scaling".to_owned(),
        if scaling.is_empty() { Json::Null } else { Json::Object(scaling) },
    );
}

/// The parameters whose divisors are exactly these.
///
/// Divisors are 1 for short waves and `factor` for long ones; between, 1/divisor is linear in
/// 1/wavelength: `1/d = (1 - s) / factor + s`, `s = (length / wave - low) / (high - low)`. Scaling
/// length, low and high together has no effect, so low is 1, like in every published model, and
/// a line through two divisors gives the other two. The parameters of published models are
/// tried first. Whatever is tried must give every divisor again, to the last bit or nearly so.
fn llama3(
    file: &ArchFile<'_>,
    config: &Map<String, Json>,
    freqs: &[f32],
) -> Result<Map<String, Json>, ExportError> {
    let factor = f64::from(freqs.iter().copied().fold(1.0f32, f32::max));
    let theta = config.get("rope_theta").and_then(Json::as_f64).unwrap_or(10_000.0);
    // Pairs of (high_freq_factor, original length), powers of two for the length.
    let mut candidates: Vec<(f64, f64)> = (4..=24).map(|log| (4.0, f64::from(1u32 << log))).collect();
    let n = freqs.len() as f64;
    // Divisors strictly between 1 and `factor`, as points (x, s): `x = 1 / wavelength = theta^(-i/n) / 2 pi` and
    // `s = (1/d - 1/factor) / (1 - 1/factor)`, the first equation solved for s. With low = 1 the second is
    // `s = (length x - 1) / (high - 1)`, a line in x.
    let points: Vec<(f64, f64)> = freqs
        .iter()
        .enumerate()
        .filter(|(_, d)| f64::from(**d) > 1.0 && f64::from(**d) < factor)
        .map(|(i, d)| {
            let inverse_wave = theta.powf(-(i as f64) / n) / std::f64::consts::TAU;
            (inverse_wave, (1.0 / f64::from(*d) - 1.0 / factor) / (1.0 - 1.0 / factor))
        })
        .collect();
    // With one divisor between there is a line only if high is 4, like in every published model.
    candidates.extend(points.iter().map(|(x, s)| (4.0, ((3.0 * s + 1.0) / x).round())));
    if let [(x0, s0), .., (x1, s1)] = points[..] {
        // The line's slope is `length / (high - 1)` and its value at 0 is `-1 / (high - 1)`.
        let slope = (s1 - s0) / (x1 - x0);
        let at_zero = s0 - slope * x0;
        let high = (1.0 - 1.0 / at_zero).round();
        candidates.push((high, (slope * (high - 1.0)).round()));
    }
    // Each candidate is converted; the best one is that whose worst divisor is fewest steps of a float away.
    let mut best: Option<(u32, Map<String, Json>)> = None;
    for (high, length) in candidates.into_iter().filter(|(high, length)| *high > 1.0 && *length >= 1.0) {
        let scaling = json!({
            "rope_type": "llama3",
            "factor": factor,
            "low_freq_factor": 1.0,
            "high_freq_factor": high,
            "original_max_position_embeddings": length as u64,
        });
        let Json::Object(scaling) = scaling else { continue };
        let mut tried = config.clone();
        write_parameters(&mut tried, scaling.clone());
        let computed = file
            .families
            .hparams(file.arch, &Json::Object(tried))
            .and_then(|hparams| (file.arch.computed)(&hparams));
        let Ok(computed) = computed else { continue };
        let Some((_, computed)) = computed.into_iter().find(|(name, _)| *name == ROPE_FREQS) else {
            continue;
        };
        if computed.len() == freqs.len() {
            let worst =
                computed.iter().zip(freqs).map(|(a, b)| a.to_bits().abs_diff(b.to_bits())).max().unwrap_or(0);
            if best.as_ref().is_none_or(|(least, _)| worst < *least) {
                best = Some((worst, scaling));
            }
        }
    }
    // The reference computes with a vector library whose last bits are its own.
    const NEARLY: u32 = 64;
    match best {
        Some((worst, scaling)) if worst <= NEARLY => Ok(scaling),
        _ => Err(ExportError::NotExpressible {
            subject: format!("`{ROPE_FREQS}` with {} divisors up to {factor}", freqs.len()),
        }),
    }
}
