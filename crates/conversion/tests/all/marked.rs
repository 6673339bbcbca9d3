//! Models that are recognized by files next to those of their base model.

use std::fs;
use std::path::Path;

use gguf_conversion::{CheckpointInput, Error, merge::LoraAdapter};
use gguf_layout::Options;
use serde_json::{Value as Json, json};

/// A copy of a golden checkpoint.
fn copy_of(name: &str) -> tempfile::TempDir {
    let temporary = tempfile::tempdir().unwrap();
    gguf_testkit::copy_folder(&gguf_testkit::checkpoint(name), temporary.path());
    temporary
}

fn open(folder: &Path) -> Result<CheckpointInput, Error> {
    CheckpointInput::open(crate::folder(folder), &Options::new(gguf_models::FAMILIES))
}

/// The class that a folder is converted as, with the warnings about its files.
fn class_and_warnings(folder: &Path) -> (Json, String) {
    let opened = open(folder).unwrap();
    let checkpoint = opened.checkpoint();
    (checkpoint.config["architectures"][0].clone(), checkpoint.warnings.join("\n"))
}

/// Replaces a key of a JSON file.
fn set(folder: &Path, file: &str, key: &str, value: Json) {
    let mut json: Json = serde_json::from_slice(&fs::read(folder.join(file)).unwrap()).unwrap();
    json[key] = value;
    fs::write(folder.join(file), json.to_string()).unwrap();
}

/// The error for a golden checkpoint with another value of a key.
fn refused_in(name: &str, file: &str, key: &str, value: Json) -> String {
    let folder = copy_of(name);
    set(folder.path(), file, key, value);
    open(folder.path()).unwrap_err().to_string()
}

#[test]
fn marked_model_without_its_weights_is_refused() {
    let folder = copy_of("clef");
    fs::remove_file(folder.path().join("joint_head.safetensors")).unwrap();
    assert_eq!(open(folder.path()).unwrap_err().to_string(), "missing file `joint_head.safetensors`");
}

/// The reference recognizes these models by the same files (`register_hparams_loader` in `conversion` of build 11549).
#[test]
fn model_without_its_marks_is_its_base_model() {
    let clef = copy_of("clef");
    assert_eq!(class_and_warnings(clef.path()), (json!("ClefModel"), String::new()));
    fs::remove_file(clef.path().join("joint_head_config.json")).unwrap();
    let (class, warnings) = class_and_warnings(clef.path());
    assert_eq!(class, json!("Qwen3_5ForConditionalGeneration"));
    assert!(
        warnings.starts_with("`joint_head.safetensors` is not read, so its 72 tensors are not"),
        "{warnings}"
    );

    let openjev = copy_of("openjev");
    assert_eq!(class_and_warnings(openjev.path()).0, json!("OpenJevModel"));
    fs::remove_file(openjev.path().join("helper/shim.py")).unwrap();
    assert_eq!(class_and_warnings(openjev.path()).0, json!("Qwen3_5ForConditionalGeneration"));

    for (removed, warning) in [
        (
            "decision_config.json",
            "`readout.safetensors` is not read, so its tensor is not in the output: `weight`",
        ),
        (
            "readout.safetensors",
            "values of files that are not read are not in the output: `decision_config.json`",
        ),
    ] {
        let folder = copy_of("pplx-decider");
        assert_eq!(class_and_warnings(folder.path()), (json!("PplxDeciderModel"), String::new()));
        fs::remove_file(folder.path().join(removed)).unwrap();
        assert_eq!(class_and_warnings(folder.path()), (json!("Qwen3_5Model"), warning.to_owned()));
    }
}

#[test]
fn class_of_a_program_marks_a_model() {
    let folder = copy_of("d1");
    assert_eq!(class_and_warnings(folder.path()), (json!("D1Model"), String::new()));
    set(folder.path(), "config.json", "model_type", json!("d1"));
    assert_eq!(class_and_warnings(folder.path()).0, json!("D1Model"));
    set(folder.path(), "config.json", "model_type", json!("lfm2_vl"));
    set(folder.path(), "config.json", "auto_map", json!({"AutoModel": "modeling.Lfm2VlModel"}));
    assert_eq!(class_and_warnings(folder.path()).0, json!("Lfm2VlForConditionalGeneration"));
}

#[test]
fn sizes_of_a_head_that_scores_options_are_checked() {
    let refused = |key, value| refused_in("d1-omni", "config.json", key, value);
    assert_eq!(
        refused("max_length", json!(1024)),
        "`config.json`: key `max_length`: expected 16384, a constant of llama.cpp, found 1024"
    );
    let layers = "`config.json`: key `head_layers`: expected a number of layers up to 10000, found ";
    assert!(refused("head_layers", json!(1_u64 << 60)).starts_with(layers));
    assert!(refused("head_layers", json!(3)).contains("head.layers.5"), "a layer that is missing");
    assert!(refused("temperatures", json!({"choice": "hot"})).contains("choice"));
}

/// The config and the tokenizer of these models are in separate folders.
#[test]
fn model_with_its_config_in_a_folder_needs_a_mark() {
    let folder = copy_of("laya");
    assert_eq!(class_and_warnings(folder.path()), (json!("ModernBertDecisionModel"), String::new()));
    let other = folder.path().join("julia_config.json");
    fs::write(&other, r#"{"architecture": "JuliaDecisionModel", "head_layers": 2}"#).unwrap();
    let opened = open(folder.path()).unwrap();
    assert_eq!(opened.checkpoint().config["decision.architecture"], json!("JuliaDecisionModel"));
    let unread = "values of files that are not read are not in the output: `rl_agent_config.json`";
    assert_eq!(opened.checkpoint().warnings, [unread]);
    for file in ["julia_config.json", "rl_agent_config.json"] {
        fs::remove_file(folder.path().join(file)).unwrap();
    }
    assert_eq!(open(folder.path()).unwrap_err().to_string(), "missing file `config.json`");
}

#[test]
fn files_of_a_model_in_folders_are_checked() {
    let refused = |key, value| refused_in("laya", "rl_agent_config.json", key, value);
    assert!(refused("head_layers", Json::Null).contains("missing key `decision.head_layers`"));
    assert!(refused("head_layers", json!(1_u64 << 60)).contains("a number of layers up to 10000"));
    assert!(
        refused("temperature", json!(1.5)).contains("key `decision.temperature`: expected a list of numbers")
    );
    assert!(refused("temperature_by_options", json!({"choice:2": "hot"})).contains("choice:2"));
    let token =
        refused_in("laya", "tokenizer/tokenizer_config.json", "cls_token", json!({"content": "[CLS]"}));
    assert_eq!(token, "`tokenizer_config.json`: missing text `cls_token`");
}

/// Files next to the adapter make its base another model.
#[test]
fn adapter_is_recognized_by_its_files() {
    let merged = |name: &str, edit: &dyn Fn(&Path)| {
        let temporary = tempfile::tempdir().unwrap();
        let golden = gguf_testkit::golden_path("lora-merged").join(name).join("adapter-0");
        gguf_testkit::copy_folder(&golden, temporary.path());
        edit(temporary.path());
        let adapter = LoraAdapter {
            folder: crate::folder(temporary.path()),
            name: "adapter".into(),
            scale: 1.0,
            takes_tokenizer: false,
        };
        let base = crate::folder(&gguf_testkit::checkpoint("qwen3.5"));
        let pre = Some("llama-bpe".to_owned());
        let options = Options { pre, ..Options::new(gguf_models::FAMILIES) };
        let opened = CheckpointInput::open_with_adapters(base, &[adapter], &options, None);
        opened.map(|opened| {
            let checkpoint = opened.checkpoint();
            (checkpoint.config["architectures"][0].clone(), checkpoint.warnings.join("\n"))
        })
    };
    let plain = json!("Qwen3_5ForConditionalGeneration");
    let unread = |file| {
        format!("adapter `adapter`: values of files that are not read are not in the output: `{file}`")
    };
    assert_eq!(merged("lev", &|_| ()).unwrap(), (json!("LevModel"), String::new()));
    let unmarked = merged("lev", &|folder| fs::remove_file(folder.join("lev_release.json")).unwrap());
    assert_eq!(unmarked.unwrap(), (plain.clone(), unread("calibration.json")));
    let damaged = |values: Json| {
        merged("lev", &|folder| set(folder, "calibration.json", "temperatures", values.clone())).unwrap_err()
    };
    assert!(damaged(json!({"choice": 1.0})).to_string().contains("a kind of question and a mode"));
    assert!(damaged(json!({"choice:A": "hot"})).to_string().contains("choice:A"));
    assert!(damaged(Json::Null).to_string().contains("missing key `temperatures`"));
    assert_eq!(merged("nimble", &|_| ()).unwrap(), (json!("NimbleModel"), String::new()));
    let other = merged("nimble", &|folder| set(folder, "schema_config.json", "task", json!("other")));
    assert_eq!(other.unwrap(), (plain, unread("schema_config.json")));
}

#[test]
fn damaged_files_of_a_marked_model_are_refused() {
    let cut = |file: &str| {
        let folder = copy_of("clef");
        let path = folder.path().join(file);
        let bytes = fs::read(&path).unwrap();
        fs::write(&path, &bytes[..bytes.len() - 3]).unwrap();
        open(folder.path()).unwrap_err().to_string()
    };
    let weights = cut("joint_head.safetensors");
    assert!(weights.starts_with("`joint_head.safetensors`: expected "), "{weights}");
    let config = cut("joint_head_config.json");
    assert!(config.starts_with("`joint_head_config.json`: "), "{config}");
}

#[test]
fn counts_of_a_head_are_checked() {
    let refused = |key, value| refused_in("clef", "joint_head_config.json", key, value);
    for key in ["layers", "routing_layers", "heads"] {
        let error = refused(key, Json::Null);
        assert_eq!(error, format!("`joint_head_config.json`: missing key `{key}`"));
        let error = refused(key, json!(-1));
        assert!(error.starts_with(&format!("`joint_head_config.json`: key `{key}`: expected ")), "{error}");
    }
    assert!(refused("layers", json!(3)).contains("joint_head.layers.3"), "a layer that is missing");
    assert!(refused("layers", json!(1_u64 << 60)).contains("layers"));
}

#[test]
fn files_of_an_unmarked_model_are_named() {
    let folder = copy_of("clef");
    set(folder.path(), "config.json", "model_type", json!("llama"));
    let checkpoint = gguf_checkpoint::open(crate::folder(folder.path())).unwrap();
    assert_eq!(checkpoint.config["architectures"], json!(["Qwen3_5ForConditionalGeneration"]));
    let warnings = checkpoint.warnings.join("\n");
    assert!(
        warnings.contains("`joint_head.safetensors` is not read, so its 72 tensors are not"),
        "{warnings}"
    );
    assert!(warnings.contains("are not in the output: `joint_head_config.json`"), "{warnings}");
}

#[test]
fn rows_of_a_readout_have_different_tokens() {
    let refused = |key, value| refused_in("pplx-decider", "decision_config.json", key, value);
    let rows =
        "tensor `readout.weight`: expected a matrix of 4 rows for different ids below 384, found shape";
    assert!(refused("token_ids", json!([70, 9, 380, 9])).starts_with(rows));
    assert!(refused("token_ids", json!([70, 9, 384, 11])).starts_with(rows));
    assert!(refused("token_ids", json!([70, 9, 380])).contains("expected a matrix of 3 rows"));
    let expected = "`decision_config.json`: key `token_ids`: expected a list of token ids, found";
    assert!(refused("token_ids", json!([70, -9, 380, 11])).starts_with(expected));
    assert!(refused("temperature", json!("hot")).contains("temperature"));
}

#[test]
fn unread_keys_of_a_side_config_are_reported() {
    let folder = copy_of("pplx-decider");
    set(folder.path(), "decision_config.json", "bias", json!({"noul": 0.5}));
    let opened = open(folder.path()).unwrap();
    let keys = opened.layout().unread_keys.iter().filter(|key| key.is_mathematics);
    let keys: Vec<&str> = keys.map(|key| key.key.as_str()).collect();
    assert!(keys.contains(&"decision.bias.noul"), "{keys:?}");
}

#[test]
fn length_of_the_output_is_that_of_the_embedding() {
    let config = gguf_testkit::read_json(gguf_testkit::checkpoint("pplx-decider").join("config.json"));
    let mut text = config["text_config"].clone();
    text["vocab_size"] = json!(1_u64 << 50);
    let error = refused_in("pplx-decider", "config.json", "text_config", text);
    assert!(error.contains("expected the number of rows of the embedding"), "{error}");
}
