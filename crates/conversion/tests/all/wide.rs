//! Families with rows of 256 at `q8_0` and `q4_k_m`: the file equals that of the reference's converter
//! followed by its llama-quantize.
//!
//! `golden/wide` contains no weights; the numbers of its script are regenerated.

use std::{fmt::Write as _, fs, path::Path};

use gguf_conversion::CheckpointInput;
use serde_json::{Value as Json, json};

use crate::families::options;

/// Writes the checkpoint of a golden: its config, the tokenizer of the small one of the same name, and
/// weights by position among the sorted names.
fn write_checkpoint(folder: &Path, small: &Path, golden: &Json) {
    fs::create_dir(folder).expect("a folder");
    for entry in fs::read_dir(small).expect("the small checkpoint") {
        let entry = entry.expect("an entry");
        if entry.path().is_file()
            && !["config.json", "expected.json", "model.safetensors"]
                .iter()
                .any(|name| entry.file_name() == *name)
        {
            fs::write(folder.join(entry.file_name()), fs::read(entry.path()).expect("a file"))
                .expect("space");
        }
    }
    fs::write(folder.join("config.json"), golden["config"].to_string()).expect("space");
    fn tensor<'a>(p: u64, name: &'a str, shape: &Json) -> (&'a str, &'static str, Vec<u64>, Vec<u8>) {
        let shape: Vec<u64> = shape.as_array().expect("a shape").iter().filter_map(Json::as_u64).collect();
        let elements = 0..shape.iter().product();
        let (dtype, bytes): (_, Vec<u8>) = if name.ends_with("_blocks") {
            ("U8", elements.map(|i| (167 * i + 13 * p) as u8).collect())
        } else if name.ends_with("_scales") {
            ("U8", elements.map(|i| (118 + (7 * i + p) % 12) as u8).collect())
        } else {
            ("BF16", elements.flat_map(|i| gguf_testkit::bf16(gguf_testkit::normal(p, i))).collect())
        };
        (name, dtype, shape, bytes)
    }
    let tensors = (0..).zip(golden["tensors"].as_object().expect("tensors"));
    let tensors = tensors.map(|(p, (name, shape))| tensor(p, name, shape));
    fs::write(folder.join("model.safetensors"), gguf_testkit::safetensors(tensors)).expect("space");
}

/// Gives a file of Phi-2 the feed-forward length of the reference: four times the embedding length, regardless of the config.
/// llama.cpp refuses that file.
fn undo_width(bytes: &mut [u8]) {
    let place = |key: &[u8]| {
        let key_at = bytes.windows(key.len()).position(|window| window == key)?;
        // The type of the value follows the key.
        Some(key_at + key.len() + 4)
    };
    let places = place(b"phi2.embedding_length").zip(place(b"phi2.feed_forward_length"));
    let Some((embedding, width)) = places else { return };
    let n_embd = u32::from_le_bytes(bytes[embedding..embedding + 4].try_into().expect("four bytes"));
    bytes[width..width + 4].copy_from_slice(&(4 * n_embd).to_le_bytes());
}

/// Replaces keys that differ from the reference: AFMoE gets no window pattern and no normalization of weights, Laguna gets YaRN's
/// magnitude in the key that llama.cpp does not read, and DeepSeek 3 gets no gating function.
/// `crates/models/tests/all/documented.rs` has the reasons.
fn undo_keys(path: &Path, name: &str) {
    let file = gguf_container::File::open(path).expect("a file");
    let mut metadata = file.metadata().clone();
    let mut keys = vec!["afmoe.attention.sliding_window_pattern", "afmoe.expert_weights_norm"];
    keys.extend((name == "deepseek3").then_some("deepseek2.expert_gating_func"));
    keys.extend(["mistral4.attention.temperature_scale", "mistral4.attention.temperature_length"]);
    let removed = keys.into_iter().filter_map(|key| metadata.remove(key)).count();
    // The reference assumes RoPE for all Granite 4 models without state spaces.
    let switches = ["granite.rope.scaling.finetuned", "granitemoe.rope.scaling.finetuned"];
    let switch = switches.into_iter().find(|key| name.starts_with("granite4") && metadata.contains(key));
    if let Some(key) = switch {
        metadata.set(key, true);
    }
    let place = metadata.iter().position(|(key, _)| key == "laguna.rope.scaling.attn_factor");
    if let Some(place) = place {
        metadata.remove("laguna.rope.scaling.attn_factor");
        metadata.set_at(place, "laguna.rope.scaling.yarn_attn_factor", gguf_container::Value::F32(1.0));
    }
    if removed > 0 || place.is_some() || switch.is_some() {
        let edit = gguf_container::Edit::new(&file, metadata, gguf_container::Slack::Use).expect("an edit");
        drop(file);
        edit.write_new(path, path, true).expect("a file");
    }
}

/// Bytes and digest of a recipe's file.
fn convert_to(
    folder: &Path,
    name: &str,
    golden: &Json,
    recipe: &str,
    path: &Path,
) -> Result<Json, gguf_conversion::Error> {
    crate::write(CheckpointInput::open(crate::folder(folder), &options(golden))?, recipe, path)?;
    undo_keys(path, name);
    let mut bytes = fs::read(path).expect("the file");
    undo_width(&mut bytes);
    Ok(json!([bytes.len(), gguf_testkit::sha256(&bytes)]))
}

#[test]
fn files_match_two_reference_steps() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden");
    let place = tempfile::tempdir().expect("a folder");
    let (mut wrong, mut n_files) = (String::new(), 0);
    for entry in fs::read_dir(root.join("wide")).expect("the golden folder") {
        let path = entry.expect("an entry").path();
        let golden = gguf_testkit::read_json(&path);
        // The model is named after its folder.
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        let folder = place.path().join(&name);
        write_checkpoint(&folder, &gguf_testkit::checkpoint(&name), &golden);
        for (recipe, expected) in golden["files"].as_object().expect("files") {
            n_files += 1;
            match convert_to(&folder, &name, &golden, recipe, &place.path().join("out.gguf")) {
                Ok(ours) if ours == *expected => {}
                Ok(ours) => writeln!(wrong, "{name} {recipe}: {ours} instead of {expected}").expect("memory"),
                Err(error) => writeln!(wrong, "{name} {recipe}: {error}").expect("memory"),
            }
            fs::remove_file(place.path().join("out.gguf")).expect("the file is there");
        }
        fs::remove_dir_all(&folder).expect("the folder is there");
    }
    assert!(wrong.is_empty(), "\n{wrong}");
    assert!(n_files >= 20, "{n_files} files");
}
