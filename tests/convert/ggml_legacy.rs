//! LLaMA files from before GGUF through `gguf-convert`, compared with `golden/ggml` (made by
//! `scripts/golden/ggml_legacy.py`): every value bit for bit, blocks that stay, keys and vocabulary.

use std::fs;

use crate::common::{Output, Sandbox, failed, golden, read_json, sha256, silent, succeed, words};
use gguf_container::{Array, File, Value};
use serde_json::Value as Json;

fn expected() -> Json {
    read_json(golden("ggml/expected.json"))
}

fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    crate::common::copy_folder(&golden("ggml"), &sandbox.path("old"));
    fs::create_dir(sandbox.path("out")).unwrap();
    sandbox
}

/// The digest of expected.json.
fn digest(bytes: &[u8]) -> String {
    sha256(bytes)[..32].to_owned()
}

fn convert(sandbox: &Sandbox, name: &str, more: &[&str]) -> File {
    let input = format!("old/{name}");
    // The name of the command is needed for its own options.
    let verb: &[&str] = if more.is_empty() { &[] } else { &["legacy"] };
    let ran = sandbox.convert(&[verb, &[input.as_str(), "out/x.gguf", "-q", "--force"], more].concat());
    assert_eq!(ran, silent(), "{name} {more:?}");
    File::parse(sandbox.read("out/x.gguf")).unwrap()
}

/// The data of a tensor that must have this shape, and its type.
fn tensor<'a>(file: &'a File, expected: &Json) -> (&'a [u8], &'static str) {
    let name = expected["name"].as_str().unwrap();
    let info = file.tensor(name).unwrap_or_else(|| panic!("no tensor {name}"));
    assert_eq!(Json::from(info.shape.dims().to_vec()), expected["shape"], "{name}");
    (file.data(info).unwrap(), info.dtype.name())
}

#[test]
fn block_values_match_formulas() {
    let (sandbox, expected) = (sandbox(), expected());
    let (mut n_elems, mut stored) = (0, std::collections::BTreeSet::new());
    for (name, model) in expected.as_object().unwrap() {
        let file = convert(&sandbox, name, &["--type", "f32"]);
        let tensors = model["tensors"].as_array().unwrap();
        assert_eq!(file.tensors().len(), tensors.len(), "{name}");
        for reference in tensors {
            let (data, dtype) = tensor(&file, reference);
            assert_eq!(
                (dtype, digest(data).as_str()),
                ("f32", reference["f32"].as_str().unwrap()),
                "{name} {reference}"
            );
            n_elems += data.len() / 4;
            stored.insert(reference["stored"].as_str().unwrap());
        }
    }
    println!("{n_elems} elements of {stored:?} in {} files", expected.as_object().unwrap().len());
    assert_eq!(stored.len(), 9);
}

#[test]
fn compatible_blocks_are_kept_by_default() {
    let (sandbox, expected) = (sandbox(), expected());
    let (mut n_kept, mut n_decoded) = (0, 0);
    for (name, model) in expected.as_object().unwrap() {
        let file = convert(&sandbox, name, &[]);
        for reference in model["tensors"].as_array().unwrap() {
            let (data, dtype) = tensor(&file, reference);
            let (today, blocks) = match reference["today"].as_str() {
                Some(today) => (today, &reference["blocks"]),
                None => ("f32", &reference["f32"]),
            };
            assert_eq!(
                (dtype, digest(data).as_str()),
                (today, blocks.as_str().unwrap()),
                "{name} {reference}"
            );
            *if reference["today"].is_null() { &mut n_decoded } else { &mut n_kept } += 1;
        }
    }
    assert!(n_kept > 100 && n_decoded > 20, "{n_kept} kept, {n_decoded} decoded");
}

#[test]
fn keys_and_vocabulary_match_reference() {
    let (sandbox, expected) = (sandbox(), expected());
    let mut n = 0;
    for (name, model) in expected.as_object().unwrap() {
        let Some(keys) = model["keys"].as_array() else { continue };
        let given = ["--eps", "1e-6", "--context-length", "4096", "--model-name", "Old"];
        let file = convert(&sandbox, name, if name.starts_with("ggmf") { &given } else { &[] });
        let found: Vec<Json> = file.metadata().iter().map(|(key, value)| json_of(key, value)).collect();
        // The file type stands at the end, after the version of the blocks, like in every quantized file.
        let mut reference: Vec<Json> =
            keys.iter().filter(|key| key[0] != "general.file_type").cloned().collect();
        reference.push(serde_json::json!(["general.quantization_version", "uint32", 2]));
        reference.push(keys.iter().find(|key| key[0] == "general.file_type").unwrap().clone());
        assert_eq!(found.len(), reference.len(), "{name}");
        for (found, reference) in found.iter().zip(&reference) {
            assert_eq!(found, reference, "{name}");
        }
        n += 1;
    }
    assert_eq!(n, 3);
}

/// A key as expected.json has it.
fn json_of(key: &str, value: &Value) -> Json {
    let hex = |text: &[u8]| text.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let (kind, value): (&str, Json) = match value {
        Value::U32(number) => ("uint32", (*number).into()),
        Value::F32(number) => ("float32", f64::from(*number).into()),
        Value::String(text) => ("string", String::from_utf8(text.clone()).unwrap().into()),
        Value::Array(Array::String(texts)) => ("array[string]", texts.iter().map(hex).collect()),
        Value::Array(Array::F32(numbers)) => {
            ("array[float32]", numbers.iter().map(|number| f64::from(*number)).collect())
        }
        Value::Array(Array::I32(numbers)) => ("array[int32]", numbers.iter().copied().collect()),
        other => panic!("{key}: {other:?}"),
    };
    serde_json::json!([key, kind, value])
}

#[test]
fn types_and_config_can_be_given() {
    let sandbox = sandbox();
    // Requantization is reported.
    let ran = succeed(sandbox.convert(&words("legacy old/ggjt3-q4_0.bin out/x.gguf --type q8_0 --eps 1e-5")));
    ran.says("are already quantized");
    ran.says("context length 2048");
    assert!(!ran.stderr.contains("epsilon"), "{}", ran.stderr);
    // Types that no longer exist are named.
    let ran = succeed(sandbox.convert(&["old/ggjt1-all.bin", "--dry-run", "--type", "f16"]));
    assert!(ran.stdout.contains("q4_3 of ggjt 1"), "{}", ran.stdout);
    ran.says("2 of q4_2, 2 of q4_3");
    // The config of another model.
    crate::common::copy_folder(&gguf_testkit::checkpoint("llama"), &sandbox.path("config"));
    let ran = sandbox.convert(&words("legacy old/ggjt3-q4_0.bin out/y.gguf --config config -q"));
    let message =
        "error: old/ggjt3-q4_0.bin: the number of tokens: expected 384, as in the config, found 16\n";
    assert_eq!(ran, failed(message));
    // Only these files need what they do not say.
    let ran = sandbox.convert(&words("legacy config out/y.gguf --type f16 --eps 1e-5"));
    assert_eq!(ran.code, Some(2), "{}", ran.stderr);
    assert_eq!(sandbox.outputs(), ["x.gguf"]);
}

#[test]
fn foreign_files_are_refused_by_name() {
    let sandbox = sandbox();
    let numbers = |magic: &[u8; 4], numbers: &[u32]| -> Vec<u8> {
        let bytes = numbers.iter().flat_map(|number| number.to_le_bytes());
        magic.iter().copied().chain(bytes).chain([0; 64]).collect()
    };
    for (bytes, message) in [
        (numbers(b"algg", &[1, 8, 16]), "`x.bin`: a LoRA adapter of llama.cpp before GGUF"),
        (numbers(b"fmgg", &[101, 50277]), "`x.bin`: a file of rwkv.cpp"),
        (numbers(b"fmgg", &[2]), "`x.bin`: unknown ggmf version 2 (expected at most 1)"),
        (numbers(b"tjgg", &[4]), "`x.bin`: unknown ggjt version 4 (expected at most 3)"),
        // GPT-2, GPT-J and Whisper by their first numbers.
        (
            numbers(b"lmgg", &[50257, 1024, 768, 12, 12, 1, 50257]),
            "`x.bin`: not a LLaMA model: the number of heads: expected a divisor of 1024, found 12",
        ),
        (
            numbers(b"lmgg", &[50400, 2048, 4096, 16, 28, 64, 1]),
            "`x.bin`: not a LLaMA model: the rotated part of a head: expected 128, found 64",
        ),
        (
            numbers(b"lmgg", &[51864, 1500, 384, 6, 4, 448, 384]),
            "`x.bin`: not a LLaMA model: the rotated part of a head: expected 250, found 448",
        ),
        (
            numbers(b"lmgg", &[32000, 4096, 256, 32, 32, 128, 2]),
            "`x.bin`: not a LLaMA model: the number of tokens: expected at most 16, the space left, found 32000",
        ),
    ] {
        sandbox.write("x.bin", bytes);
        let Output { code, stderr, .. } = sandbox.convert(&["x.bin", "out/x.gguf", "-q"]);
        assert!(stderr.starts_with(&format!("error: {message}")), "{stderr}");
        assert_eq!(code, Some(1));
    }
    // A part that is missing, or of another model.
    fs::rename(sandbox.path("old/ggml-parts.bin.1"), sandbox.path("old/other")).unwrap();
    let ran = sandbox.convert(&["old/ggml-parts.bin", "out/x.gguf", "-q"]);
    ran.begins("error: `ggml-parts.bin.1`: cannot open: ");
    fs::copy(golden("ggml/ggml-q4_0.bin"), sandbox.path("old/ggml-parts.bin.1")).unwrap();
    let ran = sandbox.convert(&["old/ggml-parts.bin", "out/x.gguf", "-q"]);
    ran.says("differ from the first part");
    assert!(sandbox.outputs().is_empty());
}
