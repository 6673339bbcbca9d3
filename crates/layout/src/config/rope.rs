//! Spellings of RoPE parameters: a flat `rope_theta` next to a `rope_scaling` dict, and the newer
//! `rope_parameters` with both.

use serde_json::{Map, Value as Json};

use crate::ArchError;
use crate::error::bad;
use gguf_tokenizer::json::is_truthy;

/// Brings both spellings to `rope_parameters`, as transformers' config classes do on loading.
/// The flat keys are gone afterwards. Says which of transformers' checks the result fails.
///
/// Source: `RotaryEmbeddingConfigMixin.convert_rope_params_to_dict`, `standardize_rope_params`
/// and `validate_rope` in `modeling_rope_utils.py` of transformers 5.23, for configs whose
/// classes know no layer types.
pub fn standardize(map: &mut Map<String, Json>, default_theta: f64) -> Result<(), String> {
    let scaling = map.remove("rope_scaling");
    let theta = map.remove("rope_theta").unwrap_or_else(|| default_theta.into());
    let partial = map.remove("partial_rotary_factor").filter(|value| !value.is_null());
    // `rope_scaling` of older files wins over `rope_parameters`, unless it is empty, null or otherwise
    // false, which Python takes for absent.
    let mut parameters = match (scaling, map.remove("rope_parameters")) {
        (Some(Json::Object(scaling)), _) if !scaling.is_empty() => scaling,
        (Some(value), _) if is_truthy(&value) => return Err("`rope_scaling` is not an object".into()),
        (_, Some(Json::Object(parameters))) => parameters,
        (_, None | Some(Json::Null)) => Map::new(),
        (_, Some(_)) => return Err("`rope_parameters` is not an object".into()),
    };
    // Models with sliding windows may have separate parameters for full and sliding attention; flat keys are then
    // defaults for both.
    let mut nested = false;
    for kind in ["full_attention", "sliding_attention"] {
        if let Some(Json::Object(inner)) = parameters.get_mut(kind) {
            nested = true;
            standardize_one(inner, map, &theta, partial.as_ref())?;
        }
    }
    if !nested {
        standardize_one(&mut parameters, map, &theta, partial.as_ref())?;
    }
    map.insert("rope_parameters".into(), Json::Object(parameters));
    Ok(())
}

/// One set of rotary parameters.
fn standardize_one(
    parameters: &mut Map<String, Json>,
    map: &Map<String, Json>,
    theta: &Json,
    partial: Option<&Json>,
) -> Result<(), String> {
    set_default(parameters, "rope_theta", theta.clone());
    if let Some(partial) = partial {
        set_default(parameters, "partial_rotary_factor", partial.clone());
    }
    // Files from before 2024 say `type` for `rope_type`.
    let kind = parameters.get("type").cloned().unwrap_or_else(|| "default".into());
    set_default(parameters, "rope_type", kind);
    let kind = parameters.get("rope_type").and_then(Json::as_str).unwrap_or_default().to_owned();
    // These scale from a length that the model was first trained for; if it is not stated, that is
    // the length it has now, which makes the scaling factor one.
    if ["llama3", "yarn", "longrope"].contains(&kind.as_str()) {
        let length = map.get("max_position_embeddings").cloned().unwrap_or(Json::Null);
        set_default(parameters, "original_max_position_embeddings", length);
    }
    // `validate_rope`: a missing parameter is an error there, after which the reference reads the file
    // as it stands.
    let needed: &[&str] = match kind.as_str() {
        "linear" | "dynamic" | "yarn" => &["factor"],
        "longrope" => &["short_factor", "long_factor"],
        "llama3" => &["factor", "low_freq_factor", "high_freq_factor"],
        _ => &[],
    };
    if let Some(key) = needed.iter().find(|key| !parameters.contains_key(**key)) {
        return Err(format!("missing `{key}` in rotary parameters of type `{kind}`"));
    }
    let head_dim = map.get("head_dim").and_then(Json::as_u64).unwrap_or(0);
    let partial = parameters.get("partial_rotary_factor").and_then(Json::as_f64).unwrap_or(1.0);
    // A rotation turns pairs; with an odd head that is rotated completely, transformers refuses the
    // file.
    if head_dim > 4 && head_dim % 2 == 1 && (head_dim as f64 * partial) as u64 == head_dim {
        return Err(format!("`head_dim` {head_dim} is odd"));
    }
    Ok(())
}

/// Flat keys of the base.
const THETA: &[&str] =
    &["global_rope_theta", "rope_global_theta", "rope_theta_global", "rope_theta", "rotary_emb_base"];
/// Flat keys of the base of sliding layers, which each family names differently.
const LOCAL_THETA: &[&str] =
    &["local_rope_theta", "rope_local_theta", "rope_theta_local", "swa_rope_theta", "rope_local_base_freq"];
/// Flat keys of the share of a head that is rotated.
const PARTIAL: &[&str] = &["partial_rotary_factor", "rope_pct", "rope_percent"];

/// The name of a flat key among the rotary parameters, if it is one.
pub fn full_name(key: &str) -> String {
    let of = |keys: &[&str]| keys.contains(&key);
    match key {
        _ if of(THETA) || of(LOCAL_THETA) => "rope_parameters.rope_theta".into(),
        _ if of(PARTIAL) => "rope_parameters.partial_rotary_factor".into(),
        "original_max_position_embeddings" => format!("rope_parameters.{key}"),
        key => key.into(),
    }
}

/// The rotary parameters that the converter works with: `rope_parameters`, else
/// `rope_scaling`, with the flat keys put in if they are absent.
///
/// Source: `TextModel.__init__` in `conversion/base.py`.
pub fn mirror(map: &Map<String, Json>) -> Result<Map<String, Json>, ArchError> {
    let key = if map.contains_key("rope_parameters") { "rope_parameters" } else { "rope_scaling" };
    let mut rope = match map.get(key) {
        Some(Json::Object(rope)) => rope.clone(),
        Some(value) if is_truthy(value) => return Err(bad(key, value, "an object")),
        _ => Map::new(),
    };
    // Parameters by kind of layer are complete already.
    if rope.contains_key("full_attention") || rope.contains_key("sliding_attention") {
        return Ok(rope);
    }
    let find =
        |keys: &[&str]| keys.iter().find_map(|key| map.get(*key)).filter(|value| !value.is_null()).cloned();
    if let Some(theta) = find(LOCAL_THETA) {
        rope.insert("sliding_attention".into(), serde_json::json!({ "rope_theta": theta }));
    }
    let kind = rope.get("type").filter(|value| !value.is_null()).cloned();
    let flat = [
        ("rope_theta", find(THETA)),
        ("rope_type", kind),
        ("partial_rotary_factor", find(PARTIAL)),
        ("original_max_position_embeddings", find(&["original_max_position_embeddings"])),
    ];
    for (key, value) in flat {
        if let Some(value) = value {
            set_default(&mut rope, key, value);
        }
    }
    Ok(rope)
}

fn set_default(map: &mut Map<String, Json>, key: &str, value: Json) {
    if !map.contains_key(key) {
        map.insert(key.into(), value);
    }
}
