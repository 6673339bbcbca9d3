//! Configs, odd ones included, against the keys that the reference converter writes for them:
//! defaults of transformers' classes, spellings of rotary parameters, files that transformers
//! refuses and the converter then reads as they stand.

use std::collections::BTreeSet;
use std::path::Path;

use gguf_layout::{ArchError, Data, Input, Layout, Options, SourceTensor};
use gguf_types::Shape;
use serde_json::{Value as Json, json};

/// Tensors of a checkpoint with this config, with shapes that fit any config.
fn tensors(config: &Json) -> Vec<SourceTensor> {
    let mut names: Vec<String> = ["lm_head", "model.embed_tokens", "model.norm"].map(str::to_owned).into();
    let stated = ["num_experts", "num_local_experts"].iter().find_map(|key| config[*key].as_u64());
    let n_experts = stated.unwrap_or(if config["model_type"] == "mixtral" { 8 } else { 0 });
    for layer in 0..config["num_hidden_layers"].as_u64().unwrap_or(1) {
        let mut layer_names: Vec<String> =
            ["input_layernorm", "post_attention_layernorm"].map(str::to_owned).into();
        layer_names.extend(["q_proj", "k_proj", "v_proj", "o_proj"].map(|name| format!("self_attn.{name}")));
        if n_experts > 0 {
            layer_names.push("block_sparse_moe.gate".into());
            for expert in 0..n_experts {
                layer_names.extend(
                    ["w1", "w2", "w3"].map(|name| format!("block_sparse_moe.experts.{expert}.{name}")),
                );
            }
        } else {
            layer_names.extend(["gate_proj", "up_proj", "down_proj"].map(|name| format!("mlp.{name}")));
        }
        names.extend(layer_names.iter().map(|name| format!("model.layers.{layer}.{name}")));
    }
    // No feed-forward length fits these widths, so that none is taken from the matrices.
    let shape = |name: &str| Shape::new(&[64, if name.ends_with("up_proj") { 65 } else { 64 }]).unwrap();
    let tensor = |name: String| SourceTensor { shape: shape(&name), name: name + ".weight", folded: None };
    names.into_iter().map(tensor).collect()
}

fn resolve(config: &Json) -> Result<Layout, ArchError> {
    let input = Input { config: config.clone(), tensors: tensors(config), ..Input::default() };
    gguf_layout::resolve_weights(&input, &Options::new(gguf_models::FAMILIES))
}

/// Keys of the reference with YaRN's magnitude where llama.cpp reads it: as a factor of 1 + 0.1 ln(factor), which llama.cpp applies
/// by itself. It ignores a key for the magnitude itself.
fn with_read_magnitude(keys: &Json) -> Json {
    let mut keys = keys.as_array().cloned().unwrap_or_default();
    let has_ending = |key: &Json, ending: &str| key[0].as_str().is_some_and(|name| name.ends_with(ending));
    let factor =
        keys.iter().find(|key| has_ending(key, ".rope.scaling.factor")).and_then(|key| key[2].as_f64());
    for key in keys.iter_mut().filter(|key| has_ending(key, ".rope.scaling.yarn_attn_factor")) {
        let (magnitude, factor) = (key[2].as_f64().unwrap(), factor.unwrap());
        let name = key[0].as_str().unwrap().replace("yarn_attn_factor", "attn_factor");
        *key = json!([name, "f32", f64::from((magnitude / (1.0 + 0.1 * factor.ln())) as f32)]);
    }
    Json::Array(keys)
}

#[test]
fn config_keys_match_reference() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden/config/llama.json");
    let golden: Json = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let (mut wrong, mut n_refused) = (Vec::new(), 0);
    assert!(golden.as_array().unwrap().len() > 80);
    for entry in golden.as_array().unwrap() {
        let config = &entry["config"];
        let layout = match (resolve(config), &entry["error"]) {
            (Ok(layout), Json::Null) => layout,
            (Err(_), Json::String(_)) => continue,
            (Ok(_), error) => {
                wrong.push(format!("{config}: resolved, the reference stops with {error}"));
                continue;
            }
            // The reference leaves out the keys of a scaling that it does not know.
            (Err(ArchError::BadKey { key, .. }), Json::Null)
                if key == "rope_parameters.rope_type" && config["rope_scaling"]["rope_type"] == "mystery" =>
            {
                n_refused += 1;
                continue;
            }
            (Err(error), _) => {
                wrong.push(format!("{config}: {error}"));
                continue;
            }
        };
        let listed = layout.metadata.iter().map(|(key, value)| {
            let (kind, value) = gguf_testkit::golden_value(value);
            json!([key, kind, value])
        });
        let mut keys: Vec<Json> = listed.collect();
        keys.retain(|key| {
            let name = key[0].as_str().unwrap();
            !name.starts_with("general.") || ["general.architecture", "general.file_type"].contains(&name)
        });
        let states_magnitude = config["rope_scaling"].get("attention_factor").is_some();
        let expected =
            if states_magnitude { with_read_magnitude(&entry["keys"]) } else { entry["keys"].clone() };
        if json!(keys) != expected {
            wrong.push(format!("{config}:\n  {}\n  {expected}", json!(keys)));
        }
        let computed: Vec<&Vec<f32>> = layout
            .tensors
            .iter()
            .filter_map(|tensor| if let Data::Computed(values) = &tensor.data { Some(values) } else { None })
            .collect();
        let ours = computed
            .first()
            .map_or(Json::Null, |values| json!(values.iter().map(|v| f64::from(*v)).collect::<Vec<_>>()));
        if ours != entry["rope_freqs"] {
            wrong.push(format!("{config}: rope_freqs\n  {ours}\n  {}", entry["rope_freqs"]));
        }
    }
    assert_eq!(n_refused, 1, "unknown scaling");
    assert!(wrong.is_empty(), "{} wrong\n{}", wrong.len(), wrong.join("\n"));
}

/// Names in `ConfigClass::new("…")`, in all sources of a folder.
fn named_classes(folder: &Path, names: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            named_classes(&path, names);
            continue;
        }
        let source = std::fs::read_to_string(&path).unwrap();
        let calls = source.split("ConfigClass::new(").skip(1);
        names.extend(calls.map(|call| call.split('"').nth(1).unwrap().to_owned()));
    }
}

#[test]
fn named_config_classes_are_those_of_data() {
    let mut named = BTreeSet::new();
    named_classes(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/families"), &mut named);
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../layout/src/config/classes.json");
    let data: Json = serde_json::from_slice(&std::fs::read(data).unwrap()).unwrap();
    let described: BTreeSet<String> = data["classes"].as_object().unwrap().keys().cloned().collect();
    let missing: Vec<_> = named.difference(&described).collect();
    let unused: Vec<_> = described.difference(&named).collect();
    assert!(
        missing.is_empty() && unused.is_empty(),
        "run scripts/config-classes; without data: {missing:?}, without a family: {unused:?}"
    );
}
