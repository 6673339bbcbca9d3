//! `gguf-convert --lora` with diffusion models, and types for a size.

use std::path::Path;

use gguf_container::File;
use gguf_quant::Level;

use crate::common::{Sandbox, Tensors, floats, succeed};

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
    let ran = sandbox.convert(&[&base, "merged.gguf", "-t", "f32", "--lora", &adapter]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.stderr.contains("merged into 12 tensors"), "{}", ran.stderr);
    succeed(sandbox.convert(&[&expected, "expected.gguf", "-t", "f32"]));
    let [merged, expected] = ["merged", "expected"].map(|name| sandbox.file(&format!("{name}.gguf")));
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
fn adapter_is_merged_into_a_gguf_file() {
    let sandbox = Sandbox::new();
    let (base, adapter) = (golden("flux-kohya/base.safetensors"), golden("flux-kohya/adapter.safetensors"));
    succeed(sandbox.convert(&[&base, "base.gguf", "-t", "f32"]));
    succeed(sandbox.convert(&[&base, "merged.gguf", "-t", "f32", "--lora", &adapter]));
    let ran = sandbox.quantize(&["base.gguf", "out.gguf", "f32", "--lora", &adapter]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.stderr.contains("merged into 12 tensors"), "{}", ran.stderr);
    let [out, merged] = ["out.gguf", "merged.gguf"].map(|name| sandbox.file(name));
    assert_eq!(out.metadata(), merged.metadata());
    for info in merged.tensors() {
        assert_eq!(values(&out, &info.name), values(&merged, &info.name), "{}", info.name);
    }
}

#[test]
fn adapter_for_quantized_weights_needs_permission() {
    let sandbox = Sandbox::new();
    write_flux(&sandbox);
    let module = "lora_unet_double_blocks_0_img_mlp_0";
    let pair = [("lora_down", floats(1, &[2, 256])), ("lora_up", floats(2, &[256, 2]))];
    let pair = pair.map(|(name, tensor)| (format!("{module}.{name}.weight"), tensor));
    sandbox.write_tensors("adapter.safetensors", &Tensors::from(pair));
    succeed(sandbox.convert(&["flux.safetensors", "flux.gguf", "-t", "q8_0"]));
    let call = ["flux.gguf", "out.gguf", "q8_0", "--lora", "adapter.safetensors"];
    let ran = sandbox.quantize(&call);
    ran.ends_and_says(1, "double_blocks.0.img_mlp.0.weight");
    succeed(sandbox.quantize(&[&call[..], &["--allow-requantize"]].concat()));
    let [base, out] = ["flux.gguf", "out.gguf"].map(|name| sandbox.file(name));
    for info in base.tensors() {
        let is_same = base.data(info).unwrap() == out.data(out.tensor(&info.name).unwrap()).unwrap();
        assert_eq!(is_same, !info.name.contains("img_mlp"), "{}", info.name);
    }
}

#[test]
fn unmatched_adapter_and_calibration_are_refused() {
    let sandbox = Sandbox::new();
    let base = golden("flux-kohya/base.safetensors");
    let ran = sandbox.convert(&[
        &base,
        "x.gguf",
        "-t",
        "f16",
        "--lora",
        &golden("wan-original/adapter.safetensors"),
    ]);
    ran.ends_and_says(1, "20 tensors without a match in the base model: `diffusion_model.blocks.0.");
    sandbox.write("text", "words");
    let ran = sandbox.convert(&[&base, "x.gguf", "-t", "q8_0", "--calibrate", "text"]);
    ran.ends_and_says(1, "--calibrate needs a model that can be run, and diffusion models cannot");
    assert!(
        ran.stderr.contains("hint: --target-size, --target-bpw and --no-larger-than-type"),
        "{}",
        ran.stderr
    );
    assert!(!sandbox.path("x.gguf").exists());
}

/// A checkpoint of Flux's names with matrices of 256 columns. The second has two values only, which all types hold well.
fn write_flux(sandbox: &Sandbox) {
    let mut tensors = Tensors::new();
    for (seed, name) in ["img_attn.proj", "img_mlp.0", "txt_mlp.0", "txt_mlp.2"].into_iter().enumerate() {
        tensors.insert(format!("double_blocks.0.{name}.weight"), floats(seed as u64, &[256, 256]));
    }
    let (_, _, bytes) = tensors.get_mut("double_blocks.0.img_mlp.0.weight").unwrap();
    for (at, value) in bytes.as_chunks_mut::<4>().0.iter_mut().enumerate() {
        *value = if at % 3 == 0 { 0.5f32 } else { -0.5 }.to_le_bytes();
    }
    tensors.insert("img_in.weight".to_owned(), floats(9, &[256, 256]));
    sandbox.write_tensors("flux.safetensors", &tensors);
}

#[test]
fn types_for_a_size_follow_the_errors_of_the_weights() {
    let sandbox = Sandbox::new();
    write_flux(&sandbox);
    let target = 290_000;
    for threads in ["1", "2"] {
        let out = format!("{threads}.gguf");
        let args = ["flux.safetensors", &out, "-t", "q4_k_m", "--target-size", "290000", "-j", threads];
        let ran = succeed(sandbox.convert(&args));
        assert!(ran.stderr.contains("mean relative squared error"), "{}", ran.stderr);
        // The ends of the model are missing.
        let warnings = ran.stderr.matches("warning").count();
        assert_eq!(warnings, ran.stderr.matches("warning: incomplete model").count(), "{}", ran.stderr);
    }
    let bytes = sandbox.read("1.gguf");
    assert_eq!(bytes, sandbox.read("2.gguf"));
    assert!(bytes.len() <= target && bytes.len() > target * 9 / 10, "{} bytes", bytes.len());
    let file = sandbox.file("1.gguf");
    let dtype = |name: &str| file.tensor(name).unwrap().dtype;
    // Never quantized in files of this architecture.
    assert_eq!(dtype("img_in.weight").name(), "f16");
    let bits = |name: &str| dtype(&format!("double_blocks.0.{name}.weight")).bits_per_elem();
    assert!(bits("img_mlp.0") < bits("img_attn.proj"), "two values need few bits");

    // The same from a file, and no worse than the types of the file type in as many bytes.
    succeed(sandbox.convert(&["flux.safetensors", "f16.gguf", "-t", "f16"]));
    let args = ["f16.gguf", "q.gguf", "q4_k_m", "--no-larger-than-type", "q4_k_m"];
    let ran = succeed(sandbox.quantize(&args));
    let after = |mark: &str| ran.stderr.split(mark).nth(1).and_then(number);
    let errors: Vec<f64> = ["squared error ", "Q4_K_M of 279 kB: "].into_iter().filter_map(after).collect();
    assert!(errors.len() == 2 && errors[0] <= errors[1], "{}", ran.stderr);
    succeed(sandbox.convert(&["flux.safetensors", "plain.gguf", "-t", "q4_k_m"]));
    let key_bytes = 64;
    assert!(sandbox.read("q.gguf").len() <= sandbox.read("plain.gguf").len() + key_bytes);

    // The choice does not survive another quantization.
    succeed(sandbox.quantize(&["q.gguf", "again.gguf", "q2_k", "--allow-requantize"]));
    let key = "gguf_tools.chosen_types";
    assert!(sandbox.file("q.gguf").get(key).is_some() && sandbox.file("again.gguf").get(key).is_none());

    // A file without keys is a diffusion model by its tensors.
    succeed(sandbox.inspect(&["unset", "f16.gguf", "general.architecture", "-o", "bare.gguf"]));
    let ran = succeed(sandbox.quantize(&["bare.gguf", "b.gguf", "q4_k_m", "--target-size", "290000"]));
    assert!(ran.stderr.contains("mean relative squared error"), "{}", ran.stderr);

    let ran = sandbox.quantize(&["f16.gguf", "x.gguf", "q4_k_m", "--target-size", "1K"]);
    ran.ends_and_says(
        1,
        "target size of 1000 bytes is too small: the smallest file with the allowed types is",
    );
}

/// The number at the start of a text.
fn number(text: &str) -> Option<f64> {
    text.split([' ', ')']).next()?.parse().ok()
}
