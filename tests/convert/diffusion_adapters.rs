//! `gguf-convert --lora` with diffusion models, and types for a size.

use std::path::Path;

use gguf_container::File;
use gguf_quant::Level;

use crate::common::{Sandbox, succeed};

fn golden(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/diffusion-adapters");
    folder.join(name).to_string_lossy().into_owned()
}

/// The values of a tensor.
fn values(file: &File, name: &str) -> Vec<f32> {
    let info = file.tensor(name).unwrap();
    let mut values = vec![0.0; info.shape.n_elems() as usize];
    gguf_quant::decode(info.dtype, Level::detect(), file.data(info).unwrap(), &mut values).unwrap();
    values
}

#[test]
fn adapter_file_is_merged_and_recorded() {
    let sandbox = Sandbox::new();
    let (base, expected) = (golden("flux-kohya/base.safetensors"), golden("flux-kohya/expected.safetensors"));
    let adapter = golden("flux-kohya/adapter.safetensors");
    let ran = sandbox.convert(&[&base, "out/merged.gguf", "-t", "f32", "--lora", &adapter]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.stderr.contains("merged into 12 tensors"), "{}", ran.stderr);
    succeed(sandbox.convert(&[&expected, "out/expected.gguf", "-t", "f32"]));
    let [merged, expected] = ["merged", "expected"].map(|name| sandbox.file(&format!("out/{name}.gguf")));
    for info in expected.tensors() {
        let (found, wanted) = (values(&merged, &info.name), values(&expected, &info.name));
        let largest = wanted.iter().fold(0.0f32, |largest, value| largest.max(value.abs()));
        for (found, wanted) in found.iter().zip(&wanted) {
            assert!((found - wanted).abs() <= 4e-7 * largest, "{}: {found}, expected {wanted}", info.name);
        }
    }
    let keys: Vec<&str> = merged.metadata().iter().map(|(key, _)| key.as_str()).collect();
    let of_file = ["general.architecture", "general.quantization_version", "general.file_type"];
    assert_eq!(keys, [&of_file[..], &["gguf_tools.merged_adapters"]].concat());
}

#[test]
fn unmatched_adapter_and_calibration_are_refused() {
    let sandbox = Sandbox::new();
    let base = golden("flux-kohya/base.safetensors");
    let ran = sandbox.convert(&[
        &base,
        "out/x.gguf",
        "-t",
        "f16",
        "--lora",
        &golden("wan-original/adapter.safetensors"),
    ]);
    ran.ends_and_says(1, "20 tensors without a match in the base model: `diffusion_model.blocks.0.");
    sandbox.write("text", "words");
    let ran = sandbox.convert(&[&base, "out/x.gguf", "-t", "q8_0", "--calibrate", "text"]);
    ran.ends_and_says(1, "--calibrate needs a model that can be run, and diffusion models cannot");
    assert!(
        ran.stderr.contains("hint: --target-size, --target-bpw and --no-larger-than-type"),
        "{}",
        ran.stderr
    );
    assert!(!sandbox.path("out/x.gguf").exists());
}
