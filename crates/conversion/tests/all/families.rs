//! Every checkpoint of `golden/arch/` at f32 and bf16: type and bytes of each tensor are those
//! of the reference converter.

use std::{fmt::Write as _, path::PathBuf, sync::Arc};

use gguf_conversion::CheckpointInput;
use serde_json::Value as Json;

fn checkpoints() -> Vec<PathBuf> {
    gguf_testkit::checkpoint_names().iter().map(|name| gguf_testkit::checkpoint(name)).collect()
}

/// Options of the reference for a golden.
pub fn options(expected: &Json) -> gguf_layout::Options {
    let target = expected["target"]
        .as_str()
        .map(|name| gguf_conversion::target(gguf_testkit::checkpoint(name).as_path()));
    gguf_layout::Options {
        pre: expected["pre"].as_str().filter(|pre| *pre != "default").map(str::to_owned),
        dense_modules: expected["options"]["sentence_transformers_dense_modules"] == true,
        prediction: match expected["prediction"].as_str() {
            Some("only") => gguf_layout::Prediction::Only,
            Some("without") => gguf_layout::Prediction::Without,
            _ => gguf_layout::Prediction::With,
        },
        equal_scores: true,
        target: target.map(|target| Arc::new(target.expect("a golden opens"))),
        ..gguf_layout::Options::new(gguf_models::FAMILIES)
    }
}

/// Tensors that the reference omits, as documented in `crates/models/tests/all/documented.rs`.
const ADDED: &[(&str, &str)] = &[
    ("bert-classifier", "cls.weight"),
    ("bert-classifier", "cls.bias"),
    ("qwen2moe-stacked", "output.weight"),
];

#[test]
fn tensor_bytes_match_reference() {
    let temporary = tempfile::tempdir().expect("a folder");
    let mut wrong = String::new();
    let mut n_tensors = 0;
    for folder in checkpoints() {
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let expected = gguf_testkit::read_json(folder.join("expected.json"));
        for recipe in ["f32", "bf16"] {
            let path = temporary.path().join(format!("{name}-{recipe}.gguf"));
            let input = CheckpointInput::open(crate::folder(folder.as_path()), &options(&expected));
            if let Err(error) = input.and_then(|input| crate::write(input, recipe, &path)) {
                let _ = writeln!(wrong, "{name}: {error}");
                continue;
            }
            let file = gguf_container::File::open(&path).expect("a GGUF file");
            let listed = expected["tensors"].as_array().expect("a list");
            let added = |tensor: &&gguf_container::TensorInfo| {
                !ADDED.contains(&(name.as_str(), tensor.name.as_str()))
            };
            let ours: Vec<_> = file.tensors().iter().filter(added).collect();
            assert_eq!(ours.len(), listed.len(), "{name}");
            for (tensor, listed) in ours.into_iter().zip(listed) {
                n_tensors += 1;
                let digest = gguf_testkit::sha256(file.data(tensor).expect("data"));
                let ours = serde_json::json!([tensor.dtype.name(), digest]);
                // Tensors that bf16 does not change are listed once.
                let expected = listed[2].get(recipe).unwrap_or(&listed[2]["f32"]);
                if tensor.name != listed[0] || ours != *expected {
                    let _ = writeln!(wrong, "{name} {recipe}: {} {ours} instead of {listed}", tensor.name);
                }
            }
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
    assert!(n_tensors > 900, "{n_tensors} tensors");
}
