//! Changes that several config classes of transformers make after defaults.

use serde_json::{Map, Value as Json, json};

use super::classes::{self, ConfigClass};

/// Layers beyond which no list is made only from a config.
const MAX_LAYERS: u64 = 10_000;

/// Fills in `layer_types` if it is null; a layer slides if `sliding` returns true.
pub fn layer_types(map: &mut Map<String, Json>, sliding: impl Fn(u64) -> bool) -> Result<(), String> {
    if map.get("layer_types").is_some_and(|types| !types.is_null()) {
        return Ok(());
    }
    // The list has an item for each layer of a number that comes out of a file.
    let n_layers = count(map, "num_hidden_layers").unwrap_or(0);
    if n_layers > MAX_LAYERS {
        return Err(format!("{n_layers} layers"));
    }
    let name = |layer| if sliding(layer) { "sliding_attention" } else { "full_attention" };
    map.insert("layer_types".into(), (0..n_layers).map(name).collect());
    Ok(())
}

/// Fills in a list of words, one for each layer, where it is null.
pub fn kinds(
    map: &mut Map<String, Json>,
    key: &str,
    kind: impl Fn(u64) -> &'static str,
) -> Result<(), String> {
    if map.get(key).is_some_and(|kinds| !kinds.is_null()) {
        return Ok(());
    }
    let n_layers = count(map, "num_hidden_layers").unwrap_or(0);
    if n_layers > MAX_LAYERS {
        return Err(format!("{n_layers} layers"));
    }
    map.insert(key.into(), (0..n_layers).map(kind).collect());
    Ok(())
}

/// Every `pattern`th layer is full, the others slide; the pattern is an older key of the file.
pub fn layer_pattern(map: &mut Map<String, Json>, default: u64) -> Result<(), String> {
    let pattern = count(map, "sliding_window_pattern").unwrap_or(default);
    if pattern == 0 {
        return Err("`sliding_window_pattern` is 0".into());
    }
    layer_types(map, |layer| !(layer + 1).is_multiple_of(pattern))
}

/// Fills in `mlp_layer_types` where it is null: the first `dense` layers are dense, the others mixtures.
pub fn dense_then_sparse(map: &mut Map<String, Json>, dense: u64) -> Result<(), String> {
    if map.get("mlp_layer_types").is_some_and(|types| !types.is_null()) {
        return Ok(());
    }
    let n_layers = count(map, "num_hidden_layers").unwrap_or(0);
    if n_layers > MAX_LAYERS {
        return Err(format!("{n_layers} layers"));
    }
    let types = (0..n_layers).map(|layer| if layer < dense { "dense" } else { "sparse" });
    map.insert("mlp_layer_types".into(), types.collect());
    Ok(())
}

/// Removes the window unless `use_sliding_window` is set.
pub fn window_if_used(map: &mut Map<String, Json>, otherwise: Json) {
    if map.get("use_sliding_window") != Some(&Json::Bool(true)) {
        map.insert("sliding_window".into(), otherwise);
    }
}

/// Moves the value of a field's older name to the field.
pub fn rename(map: &mut Map<String, Json>, from: &str, to: &str) {
    if let Some(value) = map.remove(from) {
        map.insert(to.into(), value);
    }
}

/// Rotary parameters of full and of sliding attention apart. Older files have scaling for full
/// attention only; each kind has its theta under a flat key or a default.
pub fn nested_rope(
    map: &mut Map<String, Json>,
    full: (&str, f64),
    sliding: (&str, f64),
) -> Result<(), String> {
    let mut nested = match map.remove("rope_parameters") {
        Some(Json::Object(nested)) => nested,
        None | Some(Json::Null) => Map::new(),
        Some(_) => return Err("`rope_parameters` is not an object".into()),
    };
    for (kind, (flat, default)) in [("full_attention", full), ("sliding_attention", sliding)] {
        let theta = map.get(flat).filter(|theta| !theta.is_null()).cloned().unwrap_or(default.into());
        let inner = nested.entry(kind).or_insert(Json::Null);
        if inner.is_null() {
            *inner = json!({"rope_type": "default"});
        }
        let Json::Object(inner) = inner else { return Err(format!("`{kind}` is not an object")) };
        // Sliding windows are shorter than the length the model was trained for, so they need no
        // scaling.
        if let ("full_attention", Some(Json::Object(scaling))) = (kind, map.get("rope_scaling")) {
            inner.extend(scaling.clone());
        }
        inner.entry("rope_theta").or_insert(theta);
    }
    map.remove("rope_scaling");
    map.insert("rope_parameters".into(), nested.into());
    Ok(())
}

/// Standardizes the `text_config` of a multimodal model with its own class.
pub fn text_config(map: &mut Map<String, Json>, class: &ConfigClass) -> Result<(), String> {
    if let Some(Json::Object(text)) = map.get_mut("text_config") {
        text.insert("model_type".into(), class.model_type.into());
        *text = classes::standardize(text, class)?;
    }
    Ok(())
}

/// As [`text_config`], for classes whose older files have the text keys at the top level.
pub fn text_config_or_flat(map: &mut Map<String, Json>, class: &ConfigClass) -> Result<(), String> {
    if !map.get("text_config").is_some_and(Json::is_object) {
        let mut text = map.clone();
        text.remove("vision_config");
        map.insert("text_config".into(), text.into());
    }
    text_config(map, class)
}

/// Sets the default of a key in an existing sub-config.
pub fn sub_default(map: &mut Map<String, Json>, sub: &str, key: &str, value: Json) {
    if let Some(Json::Object(sub)) = map.get_mut(sub) {
        sub.entry(key).or_insert(value);
    }
}

/// Rotary parameters of the old type `mrope` are of type `default`; their sections say the rest.
pub fn default_rope_sections(map: &mut Map<String, Json>) {
    for key in ["rope_scaling", "rope_parameters"] {
        let Some(Json::Object(rope)) = map.get_mut(key) else { continue };
        let kind = rope.get("rope_type").or_else(|| rope.get("type")).and_then(Json::as_str);
        if kind == Some("mrope") {
            rope.insert("rope_type".into(), "default".into());
        }
    }
}

/// A count, if it is there.
pub fn count(map: &Map<String, Json>, key: &str) -> Option<u64> {
    map.get(key).and_then(Json::as_u64)
}
