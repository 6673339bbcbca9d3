//! `gguf-convert` with diffusion models: files, folders and pipelines.

use std::{fs, path::Path};

use serde_json::Value as Json;

use crate::common::{Sandbox, succeed};

fn golden(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("golden").join(name).to_string_lossy().into_owned()
}

#[test]
fn pickle_becomes_the_file_of_comfyui_gguf() {
    let sandbox = Sandbox::new();
    let checkpoint = golden("diffusion/lumina2-bf16.ckpt");
    let ran = sandbox.convert(&[&checkpoint, "{ftype}.gguf", "-t", "auto,q8_0"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(
        ran.stderr.contains("tensors are read from key `model`; ignored: `ema`, `step`"),
        "{}",
        ran.stderr
    );
    let bytes = fs::read(sandbox.path("bf16.gguf")).unwrap();
    assert!(sandbox.path("q8_0.gguf").exists());
    // Without an output, the file is named after the checkpoint.
    succeed(sandbox.convert(&[&checkpoint, "-t", "bf16"]));
    assert_eq!(fs::read(sandbox.path("lumina2-bf16-BF16.gguf")).unwrap(), bytes);
    let again = sandbox.convert(&[&checkpoint, "-t", "bf16"]);
    again.ends_and_says(1, "lumina2-bf16-BF16.gguf");
}

#[test]
fn dry_run_lists_types_as_json() {
    let sandbox = Sandbox::new();
    let folder = sandbox.path("pipeline");
    fs::create_dir_all(folder.join("transformer")).unwrap();
    fs::write(folder.join("model_index.json"), "{}").unwrap();
    fs::copy(
        golden("diffusion-layouts/wan.safetensors"),
        folder.join("transformer/diffusion_pytorch_model.safetensors"),
    )
    .unwrap();
    let ran = sandbox.convert(&["pipeline", "out.gguf", "-t", "q4_k_m", "--dry-run", "--json"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let report: Json = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(report["architecture"], "wan");
    assert_eq!(report["format"], "safetensors");
    let tensors = report["outputs"][0]["tensors"].as_array().unwrap();
    let patches = tensors.iter().find(|tensor| tensor["name"] == "patch_embedding.weight").unwrap();
    assert_eq!(patches["shape"], serde_json::json!([2, 2, 1, 4, 16]));
    assert!(!sandbox.path("out.gguf").exists());
}

#[test]
fn files_without_a_diffusion_model_are_refused() {
    let sandbox = Sandbox::new();
    let adapter = golden("diffusion-adapters/flux-kohya/adapter.safetensors");
    let ran = sandbox.convert(&[&adapter, "out.gguf", "-t", "f16"]);
    ran.ends_and_says(1, "not a known diffusion model; the names look like a LoRA adapter");
    assert!(ran.stderr.contains("hint: merge it while its model is converted"), "{}", ran.stderr);
    let model = golden("diffusion/quantized-e4m3.safetensors");
    let ran = sandbox.convert(&[&model, "out.gguf", "-t", "f16", "--model-name", "x"]);
    ran.ends_and_says(2, "--model-name cannot be used with a diffusion model");
    sandbox.convert(&[&model, "out.gguf"]).ends_and_says(2, "--type");
}

#[test]
fn input_is_not_overwritten() {
    let sandbox = Sandbox::new();
    fs::copy(golden("diffusion/quantized-e4m3.safetensors"), sandbox.path("model.safetensors")).unwrap();
    let ran = sandbox.convert(&["model.safetensors", "model.safetensors", "-t", "f16", "--force"]);
    ran.ends_and_says(1, "is also the input");
    assert_eq!(
        fs::read(sandbox.path("model.safetensors")).unwrap(),
        fs::read(golden("diffusion/quantized-e4m3.safetensors")).unwrap()
    );
}
