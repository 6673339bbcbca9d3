//! Mistral 3: Small 3.1 and 3.2, Ministral 3, Devstral 2, Magistral 2509; text parts.
//!
//! Config keys: those of llama; of Ministral 3 also what queries are scaled by beyond the length that the model was
//! trained with, and the logarithm that YaRN multiplies with.
//!
//! Transforms: those of llama.
//!
//! Source: `Mistral3Model.Ministral3Model` in `conversion/mistral3.py`.

use crate::families::llama::convert::llama::{self, LLAMA};
use crate::families::mistral::convert::mistral4::MISTRAL4_CONFIG;
use crate::prelude::*;

pub const MISTRAL3: Arch = Arch {
    name: "mistral3",
    classes: &[Class::new("Mistral3ForConditionalGeneration"), Class::new("Ministral3ForCausalLM")],
    example: "mistralai/Mistral-Small-3.2-24B-Instruct-2506",
    configs: &[MISTRAL3_CONFIG, MINISTRAL3_CONFIG],
    keys,
    harmless: &["rope_parameters.beta_fast", "rope_parameters.beta_slow"],
    export: Export::Verified,
    ..LLAMA
};

fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    llama::keys(hparams, keys)?;
    if hparams.get("model_type").and_then(Json::as_str) != Some("ministral3") {
        return Ok(());
    }
    let rope = hparams.rope();
    if rope.kind() != Some("yarn") {
        let found = rope.get("rope_type").cloned().unwrap_or_default();
        return Err(bad("rope_parameters.rope_type", &found, "yarn"));
    }
    for (key, name) in [
        ("rope.scaling.yarn_log_multiplier", "mscale_all_dim"),
        // At position p: 1 + beta ln(1 + p / original length), like in Llama 4.
        ("attention.temperature_scale", "llama_4_scaling_beta"),
    ] {
        if rope.get(name).is_none() {
            return Err(missing(name));
        }
        keys.rope_number(key, rope, &[name])?;
    }
    Ok(())
}

/// `Ministral3Config`.
const MINISTRAL3_CONFIG: ConfigClass = ConfigClass::new("ministral3").adjusted(|map| {
        let has_rope =
            ["rope_parameters", "rope_scaling"].iter().any(|key| map.get(*key).is_some_and(Json::is_object));
        if !has_rope {
            let length = map.get("max_position_embeddings").cloned().unwrap_or_default();
            let rope = json!({
                "type": "yarn", "rope_theta": 1_000_000.0, "factor": 16.0, "original_max_position_embeddings": 16384,
                "max_position_embeddings": length, "beta_fast": 32.0, "beta_slow": 1.0, "mscale_all_dim": 1.0,
                "mscale": 1.0, "llama_4_scaling_beta": 0.1
            });
            map.insert("rope_parameters".into(), rope);
        }
        Ok(())
    });

/// `Mistral3Config`: text and images. Its `model_type` has another class, which reads
/// the text part.
const MISTRAL3_CONFIG: ConfigClass = ConfigClass::new("mistral3").adjusted(|map| {
    let text = map.get("text_config").and_then(|text| text.get("model_type")).and_then(Json::as_str);
    match text {
        Some("ministral3") => adjust::text_config(map, &MINISTRAL3_CONFIG),
        Some("mistral4") => adjust::text_config(map, &MISTRAL4_CONFIG),
        Some("mistral") | None => adjust::text_config(map, &ConfigClass::new("mistral")),
        Some(other) => Err(format!("no defaults are known for a text part of `model_type` `{other}`")),
    }
});
