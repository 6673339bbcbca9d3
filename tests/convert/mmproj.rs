//! `gguf-convert --mmproj` and `--with-mmproj`: names, both files from one run, and errors for checkpoints
//! without a projector.

use std::fs;

use crate::common::{Output, Sandbox, read_json, sha256, silent, succeed, words};
use serde_json::{Value as Json, json};

fn expected(name: &str) -> Json {
    read_json(gguf_testkit::projector(name).join("expected.json"))
}

/// A run that fails and leaves nothing.
fn refused(sandbox: &Sandbox, ran: &Output, message: &str) {
    ran.ends_and_says(1, message);
    assert!(sandbox.listing("out").is_empty());
}

#[test]
fn projector_name_and_bytes_match_reference() {
    let (sandbox, expected) = (Sandbox::with_projector("qwen3vl"), expected("qwen3vl"));
    for outtype in ["f16", "bf16"] {
        assert_eq!(sandbox.convert(&["mmproj", "qwen3vl", "out/", "-t", outtype, "-q"]), silent());
        let name = expected["file_name"][outtype].as_str().unwrap();
        assert!(name.starts_with("mmproj-"));
        assert_eq!(sha256(&fs::read(sandbox.path("out").join(name)).unwrap()), expected["whole"][outtype]);
    }
}

#[test]
fn one_run_writes_model_and_projector() {
    let (sandbox, expected) = (Sandbox::with_projector("qwen3vl"), expected("qwen3vl"));
    let pre = ["--pre", "llama-bpe"];
    let run = |args: &[&str]| {
        succeed(sandbox.convert(&[&["qwen3vl"], args, &pre[..]].concat()));
    };
    // The same bytes as each alone, with a separate type.
    run(&["out/m.gguf", "-t", "q4_k_m", "-q"]);
    let alone = sandbox.read("out/m.gguf");
    run(&words("out/m.gguf -t q4_k_m --with-mmproj -q --force"));
    assert_eq!(sandbox.read("out/m.gguf"), alone);
    let projector = sandbox.read("out/mmproj-m.gguf");
    assert_eq!(sha256(&projector), expected["whole"]["f16"]);
    run(&words("out/mmproj-n.gguf -t q4_k_m --with-mmproj --mmproj-type q8_0 -q --modelfile out/Modelfile"));
    let projector = sandbox.read("out/mmproj-mmproj-n.gguf");
    assert_eq!(sha256(&projector), expected["whole"]["q8_0"]);
    // The model is found by its metadata.
    let text = sandbox.text("out/Modelfile");
    assert!(text.starts_with("FROM ./mmproj-n.gguf\nFROM ./mmproj-mmproj-n.gguf\n"), "{text}");
    // A float of the model is the projector's type as well; names are the convention's.
    run(&words("out/ -t bf16 --with-mmproj -q"));
    let name = expected["file_name"]["bf16"].as_str().unwrap();
    assert_eq!(sha256(&fs::read(sandbox.path("out").join(name)).unwrap()), expected["whole"]["bf16"]);
    assert_eq!(sandbox.listing("out").len(), 7);
}

#[test]
fn model_without_projector_is_refused() {
    let text = Sandbox::with_golden("llama");
    let ran = text.convert(&words("mmproj llama out/x -t f16"));
    refused(
        &text,
        &ran,
        "class `LlamaForCausalLM` does not have a projector; nearest classes with a projector: ",
    );
    let ran = text.convert(&words("llama out/x --with-mmproj -t f16"));
    refused(&text, &ran, "class `LlamaForCausalLM` does not have a projector");

    let bare = Sandbox::with_projector("qwen3vl");
    fs::remove_file(bare.path("qwen3vl").join("preprocessor_config.json")).unwrap();
    let ran = bare.convert(&words("mmproj qwen3vl out/x -t f16"));
    refused(&bare, &ran, "missing preprocessor_config.json or processor_config.json");
    let ran = bare.convert(&words("qwen3vl out/x --with-mmproj -t f16 --pre llama-bpe"));
    refused(&bare, &ran, "missing preprocessor_config.json or processor_config.json");
    fs::write(bare.path("qwen3vl").join("preprocessor_config.json"), "{}").unwrap();
    let ran = bare.convert(&words("mmproj qwen3vl out/x -t f16"));
    refused(&bare, &ran, "`preprocessor_config.json`: missing key `image_mean`");
    fs::write(bare.path("qwen3vl").join("preprocessor_config.json"), "[1").unwrap();
    let ran = bare.convert(&words("mmproj qwen3vl out/x -t f16"));
    refused(&bare, &ran, "preprocessor_config.json");

    // A text model that kept the class of the whole.
    let cut = Sandbox::with_golden("llama");
    cut.edit_json("llama/config.json", |config| {
        config["architectures"] = json!(["Qwen3VLForConditionalGeneration"]);
        config["vision_config"] = json!({"depth": 2, "num_heads": 2, "deepstack_visual_indexes": []});
    });
    let ran = cut.convert(&words("mmproj llama out/x -t f16"));
    refused(&cut, &ran, " tensors of the checkpoint belongs to projector `qwen3vl`");
    cut.edit_json("llama/config.json", |config| {
        drop(config.as_object_mut().unwrap().remove("vision_config"))
    });
    let ran = cut.convert(&words("mmproj llama out/x -t f16"));
    refused(&cut, &ran, " tensors of the checkpoint belongs to projector `qwen3vl`");
}

#[test]
fn configs_contradicting_tower_are_refused() {
    for (key, value, message) in [
        ("depth", json!(5), "missing tensors"),
        ("depth", json!(3), "not used by this architecture"),
        ("depth", json!("x"), "`depth`"),
        ("depth", Json::Null, "`vision_config.depth`"),
        ("deepstack_visual_indexes", json!([0, 9]), "`vision_config.deepstack_visual_indexes`"),
        ("deepstack_visual_indexes", json!([0]), "not used by this architecture"),
        ("hidden_size", json!(-1), "`vision_config.hidden_size`"),
    ] {
        let sandbox = Sandbox::with_projector("qwen3vl");
        sandbox.edit_json("qwen3vl/config.json", |config| config["vision_config"][key] = value.clone());
        let ran = sandbox.convert(&words("mmproj qwen3vl out/x -t f16"));
        refused(&sandbox, &ran, message);
    }
}
