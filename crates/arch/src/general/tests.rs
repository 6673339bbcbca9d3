use std::path::Path;

use super::model_id::{ModelId, title};
use super::*;

/// What the reference makes of a list of names, some of them odd, at several model sizes.
#[test]
fn names_fall_apart_as_in_the_reference() {
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

#[test]
fn text_of_a_card_is_what_it_says() {
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
