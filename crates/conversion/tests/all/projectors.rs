//! The projector of every checkpoint of `golden/projectors/` in all float types and q8_0: the file equals
//! that of the reference's converter (and llama-quantize).

use std::{collections::BTreeSet, fmt::Write as _, fs, path::Path};

use gguf_conversion::CheckpointInput;
use gguf_testkit::golden_value;
use serde_json::{Value as Json, json};

fn convert_to(folder: &Path, recipe: &str, path: &Path) -> Result<(), gguf_conversion::Error> {
    crate::write(
        CheckpointInput::open_projector(
            crate::folder(folder),
            &gguf_layout::Options::new(gguf_models::FAMILIES),
        )?,
        recipe,
        path,
    )
}

/// Compares tensors whose last bits depend on the processor with the sample in `near` of the golden, and
/// zeros them like the golden's digests. Returns the differences.
fn zero_computed(path: &Path, expected: &Json) -> String {
    let mut wrong = String::new();
    let Some(near) = expected.get("near").and_then(Json::as_object) else { return wrong };
    let file = gguf_container::File::open(path).unwrap();
    let mut bytes = fs::read(path).unwrap();
    for (name, sample) in near {
        let Some(tensor) = file.tensor(name) else { continue };
        let range = file.range(tensor).unwrap();
        if tensor.dtype == gguf_types::DType::F32 {
            let values = bytes[range.clone()].chunks_exact(4).map(|four| four.try_into().unwrap());
            let values: Vec<f32> = values.map(f32::from_le_bytes).collect();
            let step = sample["step"].as_u64().unwrap() as usize;
            let theirs = sample["values"].as_array().unwrap();
            assert_eq!(values.iter().step_by(step).count(), theirs.len(), "{name}");
            for (at, (ours, theirs)) in values.iter().step_by(step).zip(theirs).enumerate() {
                let theirs = theirs.as_f64().unwrap() as f32;
                // Two units in the last place, but for values below 1/16 those of 1/16: sines near 0 have a
                // larger relative error.
                if (ours - theirs).abs() > 2.0 * f32::EPSILON * theirs.abs().max(0.0625) {
                    let _ = writeln!(wrong, "  {name}: {ours} instead of {theirs} at {}", at * step);
                }
            }
        }
        bytes[range].fill(0);
    }
    drop(file);
    fs::write(path, bytes).unwrap();
    wrong
}

fn differences(path: &Path, recipe: &str, expected: &Json) -> String {
    let mut wrong = String::new();
    if gguf_testkit::sha256(&fs::read(path).unwrap()) == expected["whole"][recipe] {
        return wrong;
    }
    let file = gguf_container::File::open(path).unwrap();
    let listed = expected["tensors"].as_array().unwrap();
    for tensor in file.tensors() {
        let digest = gguf_testkit::sha256(file.data(tensor).unwrap())[..12].to_owned();
        let ours = match recipe {
            "f32" => json!([tensor.dtype.name(), digest]),
            _ => json!(tensor.dtype.name()),
        };
        let shape = json!(tensor.shape.dims());
        match listed.iter().find(|listed| listed[0] == tensor.name.as_str()) {
            None => {
                let _ = writeln!(wrong, "  {} is not in the reference's file", tensor.name);
            }
            Some(listed) => {
                let expected = match recipe {
                    "f32" => &listed[2]["f32"],
                    _ => listed[2].get(recipe).unwrap_or(&listed[2]["f32"][0]),
                };
                if recipe != "q8_0" && (ours != *expected || shape != listed[1]) {
                    let _ = writeln!(
                        wrong,
                        "  {} {shape} {ours} instead of {} {expected}",
                        tensor.name, listed[1]
                    );
                }
            }
        }
    }
    let ours: Vec<&str> = file.tensors().iter().map(|tensor| tensor.name.as_str()).collect();
    let theirs: Vec<&str> = listed.iter().filter_map(|tensor| tensor[0].as_str()).collect();
    for name in theirs.iter().filter(|name| !ours.contains(name)) {
        let _ = writeln!(wrong, "  {name} is not in this file");
    }
    if recipe != "q8_0" && ours != theirs {
        let _ = writeln!(wrong, "  tensors {ours:?}\n  instead {theirs:?}");
    }
    let keys = file.metadata().iter().map(|(key, value)| {
        let (kind, value) = golden_value(value);
        json!([key, kind, value])
    });
    let keys: Vec<Json> = keys.collect();
    let theirs = expected["metadata"].as_array().unwrap();
    for key in keys.iter().filter(|key| !theirs.contains(key)) {
        let _ = writeln!(wrong, "  key {key}");
    }
    for key in theirs.iter().filter(|key| !keys.contains(key)) {
        let _ = writeln!(wrong, "  instead of key {key}");
    }
    if wrong.is_empty() { "  order of keys, or padding\n".to_owned() } else { wrong }
}

#[test]
fn files_match_reference() {
    let temporary = tempfile::tempdir().unwrap();
    let (mut wrong, mut n_files) = (String::new(), 0);
    for name in gguf_testkit::projector_names() {
        let folder = gguf_testkit::projector(&name);
        let expected = gguf_testkit::read_json(folder.join("expected.json"));
        for recipe in ["f32", "bf16", "f16", "q8_0"] {
            if expected["whole"].get(recipe).is_none() {
                continue;
            }
            let path = temporary.path().join(format!("{name}-{recipe}.gguf"));
            let differs = match convert_to(&folder, recipe, &path) {
                Err(error) => format!("  {error}\n"),
                Ok(()) => {
                    let computed = zero_computed(&path, &expected);
                    computed + &differences(&path, recipe, &expected)
                }
            };
            n_files += 1;
            if !differs.is_empty() {
                let _ = writeln!(wrong, "{name} {recipe}:\n{differs}");
                break;
            }
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
    assert!(n_files > 40, "{n_files} files");
}

#[test]
fn every_projector_has_a_golden() {
    let mut without: BTreeSet<&str> = gguf_models::PROJECTORS.iter().map(|row| row.name).collect();
    for name in gguf_testkit::projector_names() {
        let folder = crate::folder(&gguf_testkit::projector(&name));
        let config = gguf_checkpoint::open_without_weights(folder).unwrap().config;
        let of_tower = config["vision_config"]["architectures"][0].as_str();
        let classes = [of_tower, config["architectures"][0].as_str()];
        let row = gguf_models::PROJECTORS
            .iter()
            .find(|row| classes.iter().flatten().any(|class| row.classes.contains(class)));
        without.remove(row.unwrap().name);
    }
    assert!(without.is_empty(), "rows of PROJECTORS without a checkpoint in golden: {without:?}");
}

#[test]
fn classes_are_unique_and_sorted() {
    let classes: Vec<&str> =
        gguf_models::PROJECTORS.iter().flat_map(|row| row.classes.iter().copied()).collect();
    assert_eq!(classes.iter().collect::<BTreeSet<_>>().len(), classes.len());
    assert!(gguf_models::PROJECTORS.is_sorted_by_key(|row| row.name));
}

#[test]
fn projector_without_text_model_is_refused_as_model() {
    let options = gguf_layout::Options::new(gguf_models::FAMILIES);
    let error = CheckpointInput::open(gguf_testkit::projector("ultravox").as_path(), &options).unwrap_err();
    assert_eq!(error.to_string(), "class `UltravoxModel` has a projector and no text model");
}

#[test]
fn text_model_without_towers_has_no_projector() {
    let options = gguf_layout::Options::new(gguf_models::FAMILIES);
    // These classes have projectors, but the configs lack the keys of the towers.
    for name in ["deepseek4", "dots3-mtp", "mimo2-old"] {
        let error =
            CheckpointInput::open_projector(gguf_testkit::checkpoint(name).as_path(), &options).unwrap_err();
        assert!(error.to_string().starts_with("none of the "), "{name}: {error}");
    }
}
