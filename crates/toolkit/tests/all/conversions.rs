//! Options of conversions: their serialized form, and inputs that are recognized by their contents.

use std::fs;

use gguf_toolkit::{
    Adapter, Convert, ConvertAdapter, ConvertLegacy, ConvertProjector, ConvertVocab, Export, FileType,
    Quantize, Save, TensorType, convert::InputType, hub::HubOptions,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use crate::checkpoint;

/// The options after a round trip through JSON, which an unknown field does not survive.
fn round_trip<T: Serialize + DeserializeOwned>(options: &T) -> Value {
    let json = serde_json::to_value(options).unwrap();
    let read: T = serde_json::from_value(json.clone()).unwrap();
    assert_eq!(serde_json::to_value(&read).unwrap(), json);
    let mut wrong = json.clone();
    wrong["unknown_field"] = json!(1);
    assert!(serde_json::from_value::<T>(wrong).is_err());
    json
}

#[test]
fn options_have_json_form() {
    let mut convert = Convert::new("in", [FileType::Q4_K_M, FileType::Auto]);
    convert.adapters = vec![Adapter { scale: 0.5, ..Adapter::new("lora") }];
    convert.tensors.rules.tensor_types = vec![TensorType::parse("attn_v=q8_0").unwrap()];
    convert.hub.token = Some("secret".to_owned());
    let json = round_trip(&Convert { hub: HubOptions::default(), ..convert.clone() });
    assert_eq!(json["types"], json!(["q4_k_m", "auto"]));
    assert_eq!(json["tensors"]["rules"]["tensor_types"], json!(["attn_v=q8_0"]));
    assert_eq!(json["arch"]["prediction"], "with");
    for shown in [serde_json::to_string(&convert).unwrap(), format!("{convert:?}")] {
        assert!(!shown.contains("secret"), "{shown}");
    }
    round_trip(&ConvertAdapter::new("in", [FileType::F16]));
    round_trip(&ConvertLegacy::new("in", []));
    round_trip(&ConvertProjector::new("in", [FileType::F16]));
    round_trip(&ConvertVocab::new("in"));
    round_trip(&Export::new("in", "out"));
    round_trip(&Quantize::new("in", [FileType::COPY]));
    round_trip(&Save::new([FileType::Q8_0]));
    // Fields that are left out have their defaults.
    let short: Quantize = serde_json::from_value(json!({"source": "in", "types": ["q8_0"]})).unwrap();
    assert_eq!(short.calibration.calibration_tokens, 16_384);
}

#[test]
fn adapter_folder_converts_as_adapter() {
    let sandbox = tempfile::tempdir().unwrap();
    let (golden, folder) = (gguf_testkit::golden_path("lora/llama"), sandbox.path().join("adapter"));
    fs::create_dir(&folder).unwrap();
    for name in ["adapter_config.json", "adapter_model.safetensors"] {
        fs::copy(golden.join(name), folder.join(name)).unwrap();
    }
    let mut convert = Convert::new(&folder, [FileType::F16]);
    convert.output.out = Some(sandbox.path().join("a.gguf"));
    let error = convert.run(&()).unwrap_err();
    assert!(error.to_string().contains("base model"), "{error}");
    // The config may name a local folder.
    let mut config: Value =
        serde_json::from_slice(&fs::read(folder.join("adapter_config.json")).unwrap()).unwrap();
    let base = gguf_testkit::checkpoint("llama-head-dim");
    config["base_model_name_or_path"] = base.to_str().into();
    fs::write(folder.join("adapter_config.json"), config.to_string()).unwrap();
    convert.run(&()).unwrap();
    let mut adapter = ConvertAdapter::new(&folder, [FileType::F16]);
    adapter.base = Some(base);
    adapter.output.out = Some(sandbox.path().join("b.gguf"));
    adapter.run(&()).unwrap();
    let [first, second] = ["a.gguf", "b.gguf"].map(|name| fs::read(sandbox.path().join(name)).unwrap());
    assert!(first == second);
    assert_eq!(InputType::of(&folder), InputType::Adapter);
    // Options that an adapter does not have are refused by name.
    convert.naming.pre = Some("llama-bpe".to_owned());
    let error = convert.run(&()).unwrap_err();
    assert_eq!(error.to_string(), "--pre cannot be used with an adapter");
}

#[test]
fn legacy_file_converts_as_legacy() {
    let sandbox = tempfile::tempdir().unwrap();
    let source = gguf_testkit::golden_path("ggml/ggjt3-q4_0.bin");
    assert_eq!(InputType::of(&source), InputType::Legacy);
    let mut convert = Convert::new(&source, []);
    convert.output.out = Some(sandbox.path().join("a.gguf"));
    let report = convert.run(&()).unwrap();
    let mut legacy = ConvertLegacy::new(&source, []);
    legacy.output.out = Some(sandbox.path().join("b.gguf"));
    legacy.run(&()).unwrap();
    let [first, second] = ["a.gguf", "b.gguf"].map(|name| fs::read(sandbox.path().join(name)).unwrap());
    assert!(first == second && !report.outputs[0].tensors.is_empty());
    convert.repack = true;
    let error = convert.run(&()).unwrap_err();
    assert!(error.to_string().starts_with("--repack cannot be used with"), "{error}");
}

#[test]
fn vocabulary_converts_without_weights() {
    let sandbox = tempfile::tempdir().unwrap();
    let mut vocab = ConvertVocab::new(checkpoint());
    vocab.out = Some(sandbox.path().join("vocab.gguf"));
    let planned = vocab.plan(&()).unwrap();
    let written = vocab.run(&()).unwrap();
    assert_eq!((planned.tokens, planned.bytes), (written.tokens, written.bytes));
    assert_eq!(fs::metadata(sandbox.path().join("vocab.gguf")).unwrap().len(), written.bytes);
    vocab.file_type = Some(FileType::Q4_K_M);
    assert!(vocab.plan(&()).is_err());
}
