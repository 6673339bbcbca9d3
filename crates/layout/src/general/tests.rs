use std::path::Path;

use gguf_container::Array;

use super::known::text;
use super::model_id::{ModelId, title};
use super::*;
use crate::layout::FloatType;

/// The reference's results for a list of names, some odd, at several model sizes.
#[test]
fn model_names_split_as_in_reference() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden/names/model-ids.json");
    let golden: Json = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let cases = golden.as_array().unwrap();
    assert!(cases.len() > 100);
    for case in cases {
        let (name, total) = (case["id"].as_str().unwrap(), case["total_params"].as_i64().unwrap());
        let id = ModelId::parse(name, total);
        let ours = serde_json::json!([
            id.full_name,
            id.organization,
            id.basename,
            id.finetune,
            id.version,
            id.size_label
        ]);
        assert_eq!(ours, case["components"], "{name} at {total} parameters");
        assert_eq!(title(name), case["title"], "{name}");
    }
}

/// Cards, generation configs, names and overrides against the keys of the reference.
#[test]
fn model_card_keys_match_reference() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden/config/general.json");
    let golden: Json = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let mut wrong = Vec::new();
    assert!(golden.as_array().unwrap().len() > 40);
    for entry in golden.as_array().unwrap() {
        let given = |key: &str| entry.get(key).cloned();
        let input = Input {
            config: serde_json::json!({ "_name_or_path": given("path") }),
            generation_config: given("generation"),
            card: given("card"),
            folder_name: entry["folder"].as_str().unwrap().into(),
            ..Input::default()
        };
        let options = Options {
            model_name: entry.get("model_name").and_then(Json::as_str).map(str::to_owned),
            metadata_override: given("overrides"),
            ..Options::new(crate::Families::EMPTY)
        };
        let tensor = OutTensor {
            name: "x.weight".into(),
            shape: gguf_types::Shape::new(&[entry["total_params"].as_u64().unwrap()]).unwrap(),
            data: crate::Data::Computed(Vec::new()),
            float: FloatType::F32,
            stored_dtype: None,
        };
        let mut keys = Keys::new("llama");
        super::keys(&input, &options, FileKind::Model, &[tensor], &mut keys).unwrap();
        let ours: Vec<Json> = keys
            .finish()
            .metadata
            .iter()
            .skip(2)
            .filter(|(key, _)| key != "general.quantization_version")
            .map(|(key, value)| match value {
                Value::U32(v) => serde_json::json!([key, "u32", v]),
                Value::I32(v) => serde_json::json!([key, "i32", v]),
                Value::F32(v) => serde_json::json!([key, "f32", f64::from(*v)]),
                Value::String(_) => serde_json::json!([key, "str", value.as_str()]),
                Value::Array(Array::String(items)) => {
                    let items: Vec<_> = items.iter().map(|item| String::from_utf8_lossy(item)).collect();
                    serde_json::json!([key, "arr[str]", items])
                }
                other => panic!("no golden has {other:?}"),
            })
            .collect();
        if Json::from(ours.clone()) != entry["keys"] {
            wrong.push(format!("{entry}\n  {}", Json::from(ours)));
        }
    }
    // Local paths are not written: two in `_name_or_path`, and a base model that is no name of the Hub.
    let is_local = |text: &String| {
        ["\"./local-7B\"", "\"/abs\"", "\"with space\""].iter().any(|path| text.contains(path))
    };
    let (local, wrong): (Vec<String>, Vec<String>) = wrong.into_iter().partition(is_local);
    assert_eq!(local.len(), 3, "{}", local.join("\n"));
    assert!(wrong.is_empty(), "{} wrong\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn card_values_become_text() {
    for (value, expected) in [
        (serde_json::json!("mit"), Some("mit")),
        (serde_json::json!(["mit", "apache-2.0"]), Some("mit,apache-2.0")),
        (serde_json::json!(1.5), Some("1.5")),
        (serde_json::json!({"a": 1}), None),
        (Json::Null, None),
    ] {
        assert_eq!(text(&value).as_deref(), expected, "{value}");
    }
}
