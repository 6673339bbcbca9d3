//! Config options for which llama.cpp reads a metadata key, although the reference's converter does not write it.
//!
//! The keys of a row are the reference's. An option that the row did not read is written if the loader of llama.cpp
//! reads a key for it in files of the architecture, and the value differs from llama.cpp's default.

use gguf_container::Value;
use serde_json::Value as Json;

use crate::ArchError;
use crate::config::Hparams;
use crate::departure::Departure;
use crate::keys::{Keys, to_f32, to_u32};
use crate::loader;
use crate::registry::Families;
use crate::text_keys::scaling_keys;

/// An option that becomes a key.
struct LateKey {
    /// Name in the config, with `rope_parameters.` before rotary parameters.
    option: &'static str,
    /// Value that llama.cpp assumes without the key.
    default: f64,
    row: Departure,
}

const fn late(option: &'static str, subject: &'static str, default: f64) -> LateKey {
    let files = "architectures whose class in the converter does not read the option";
    let reason = "the option of the config, for which llama.cpp reads this key";
    LateKey { option, default, row: Departure { subject, files, reason } }
}

static LATE: &[LateKey] = &[
    late("rope_parameters.rope_theta", "rope.freq_base", 10_000.0),
    late("rope_parameters.llama_4_scaling_beta", "attention.temperature_scale", 0.0),
    late("attention_multiplier", "attention.scale", 0.0),
    late("attn_logit_softcapping", "attn_logit_softcapping", 0.0),
    late("clip_qkv", "attention.clamp_kqv", 0.0),
    late("embedding_multiplier", "embedding_scale", 1.0),
    late("final_logit_softcapping", "final_logit_softcapping", 0.0),
    late("residual_multiplier", "residual_scale", 1.0),
    late("routed_scaling_factor", "expert_weights_scale", 1.0),
];

/// Length to which positions of scaled queries are compared.
static TEMPERATURE_LENGTH: LateKey =
    late("rope_parameters.original_max_position_embeddings", "attention.temperature_length", 0.0);

/// Length up to which the short factors of `longrope` apply.
static ORIGINAL_LENGTH: LateKey =
    late("rope_parameters.original_max_position_embeddings", "rope.scaling.original_context_length", 0.0);

/// Rotary scaling.
static SCALING: &[LateKey] = &[
    late("rope_parameters.rope_type", "rope.scaling.type", 0.0),
    late("rope_parameters.factor", "rope.scaling.factor", 1.0),
];

/// All rows, for the list of differences.
pub fn rows() -> impl Iterator<Item = &'static Departure> {
    let all = LATE.iter().chain([&TEMPERATURE_LENGTH, &ORIGINAL_LENGTH]).chain(SCALING);
    all.map(|late| &late.row)
}

/// Writes the keys after those of the row. `harmless` is [`crate::Arch::harmless`].
///
/// # Errors
///
/// [`ArchError::BadKey`].
pub fn write(
    families: &Families,
    harmless: &[&str],
    hparams: &Hparams,
    keys: &mut Keys,
) -> Result<(), ArchError> {
    let architecture = keys.architecture();
    let Some(types) = loader::KeyTypes::of(families, architecture) else { return Ok(()) };
    let is_open = |keys: &Keys, key: &str| {
        let is_read = types.get(&format!("{architecture}.{key}")).is_some();
        is_read && keys.prefixed(key).is_none()
    };
    if !hparams.was_asked("rope_parameters.rope_type") && is_open(keys, "rope.scaling.type") {
        scale(hparams, keys)?;
    }
    let was_asked: Vec<bool> = LATE.iter().map(|late| hparams.was_asked(late.option)).collect();
    for (late, _) in LATE.iter().zip(was_asked).filter(|(_, asked)| !asked) {
        if !is_open(keys, late.row.subject) || harmless.contains(&late.option) {
            continue;
        }
        keys.derived_from(late.row.subject, &[late.option]);
        let Some(value) = number(hparams, late.option) else { continue };
        if value.as_f64() == Some(late.default) {
            continue;
        }
        keys.depart(&late.row, Value::F32(to_f32(late.option, value)?), None);
        if late.row.subject == "attention.temperature_scale" && is_open(keys, TEMPERATURE_LENGTH.row.subject)
        {
            write_length(&TEMPERATURE_LENGTH, hparams, keys)?;
        }
    }
    if hparams.was_asked("rope_parameters.long_factor")
        && hparams.rope().get("long_factor").is_some()
        && is_open(keys, ORIGINAL_LENGTH.row.subject)
    {
        write_length(&ORIGINAL_LENGTH, hparams, keys)?;
    }
    Ok(())
}

/// The value of an option that is not `null`.
fn number<'a>(hparams: &'a Hparams, option: &str) -> Option<&'a Json> {
    match option.strip_prefix("rope_parameters.") {
        Some(key) => hparams.rope().get(key),
        None => hparams.get(option),
    }
}

fn write_length(late: &'static LateKey, hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    keys.derived_from(late.row.subject, &[late.option]);
    let Some(length) = number(hparams, late.option) else { return Ok(()) };
    let length = Value::U32(to_u32(late.option, length)?);
    // Without the key, llama.cpp takes the context length.
    if keys.prefixed("context_length") != Some(&length) || late.row.subject.starts_with("attention.") {
        keys.depart(&late.row, length, None);
    }
    Ok(())
}

/// Writes linear scaling and YaRN, with the keys that other rows write.
fn scale(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    match hparams.rope().kind() {
        Some("linear" | "yarn") => scaling_keys(hparams, keys)?,
        // The factors are tensors.
        Some("su" | "longrope") if hparams.was_asked("rope_parameters.long_factor") => {}
        Some(kind @ ("llama3" | "proportional" | "su" | "longrope")) => keys.warnings.push(format!(
            "rotary scaling of type `{kind}` is not stored, because `{}` has no keys for it: results will differ from \
                transformers",
            keys.architecture()
        )),
        _ => {}
    }
    for late in SCALING {
        if keys.prefixed(late.row.subject).is_some() {
            keys.departs(&late.row);
        }
    }
    Ok(())
}
