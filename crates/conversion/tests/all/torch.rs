//! Folders of torch pickles, and of layouts without a config: files equal those of the reference.

use std::{
    fs,
    path::{Path, PathBuf},
};

use gguf_checkpoint::Folder;
use gguf_conversion::CheckpointInput;
use serde_json::Value as Json;
use tempfile::TempDir;

fn golden(name: &str) -> PathBuf {
    gguf_testkit::golden_path("torch").join(name)
}

/// The folder of a golden under its own name, which becomes the model's, with the shared tokenizer.
fn folder(name: &str) -> (TempDir, PathBuf) {
    let temporary = tempfile::tempdir().expect("a folder");
    let folder = temporary.path().join(name);
    fs::create_dir(&folder).expect("a folder");
    let tokenizer = if name.starts_with("mistral") { "tokenizer.model.v3" } else { "tokenizer.model" };
    fs::copy(golden("tokenizer.model"), folder.join(tokenizer)).expect("a tokenizer");
    gguf_testkit::copy_folder(&golden(name), &folder);
    (temporary, folder)
}

fn expected(name: &str) -> Json {
    gguf_testkit::read_json(golden(name).join("expected.json"))
}

fn convert(folder: &Path, recipe: &str) -> Result<Vec<u8>, gguf_conversion::Error> {
    convert_folder(Folder::at(folder), recipe)
}

fn convert_folder(folder: Folder, recipe: &str) -> Result<Vec<u8>, gguf_conversion::Error> {
    let out = folder.path().with_extension(format!("{recipe}.gguf"));
    let _ = fs::remove_file(&out);
    crate::write(
        CheckpointInput::open(
            folder.clone().forms(gguf_models::FORMS),
            &gguf_layout::Options::new(gguf_models::FAMILIES),
        )?,
        recipe,
        &out,
    )?;
    // The reference writes no context length if params.json has none, and llama.cpp does not load its file.
    let name = folder.name();
    if ["mistral-fp8", "mistral-scaled", "mistral-spm"].contains(&name.as_str()) {
        let file = gguf_container::File::open(&out).expect("a file");
        let mut metadata = file.metadata().clone();
        let lengths = ["llama.context_length", "mistral3.context_length"].map(|key| metadata.remove(key));
        assert_eq!(lengths.into_iter().flatten().next(), Some(gguf_container::Value::U32(32_768)));
        let edit = gguf_container::Edit::new(&file, metadata, gguf_container::Slack::Use).expect("an edit");
        drop(file);
        edit.write_new(&out, &out, true).expect("a file");
    }
    Ok(fs::read(out).expect("the file was just written"))
}

/// Length and digest in the golden's form.
fn summary(file: &[u8]) -> Json {
    serde_json::json!([file.len(), gguf_testkit::sha256(file)])
}

#[test]
fn files_match_reference() {
    let entries = fs::read_dir(golden("")).expect("goldens");
    let names = entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned());
    let mut names: Vec<String> = names.filter(|name| golden(name).join("expected.json").is_file()).collect();
    names.sort();
    assert!(names.len() >= 11, "{names:?}");
    let mut wrong = String::new();
    for name in names {
        let (_temporary, folder) = folder(&name);
        for recipe in ["f32", "bf16"] {
            match convert(&folder, recipe) {
                Ok(file) if summary(&file) == expected(&name)[recipe] => {}
                Ok(file) => wrong += &format!("{name} {recipe}: {}\n", summary(&file)),
                Err(error) => wrong += &format!("{name} {recipe}: {error}\n"),
            }
        }
    }
    assert_eq!(wrong, "");
}

/// If both copies exist, Hugging Face's is read, with a note about the other; `mistral_format` reverses this.
#[test]
fn only_one_of_two_copies_is_read() {
    let (_temporary, both) = folder("bin");
    gguf_testkit::copy_folder(&golden("mistral-spm"), &both);
    fs::copy(golden("tokenizer.model"), both.join("tokenizer.model.v3")).expect("a tokenizer");
    let file = convert(&both, "bf16").expect("a conversion");
    assert_eq!(summary(&file), expected("bin")["bf16"]);
    let notes = gguf_checkpoint::open(&both).expect("a checkpoint").notes;
    let note = "weights are read from `pytorch_model.bin` (torch pickles); ignored: `consolidated.safetensors` (Mistral's own layout of safetensors)";
    assert_eq!(notes, [note]);
    let mistral = Folder::at(&both).named("mistral-spm").mistral_format(true);
    let file = convert_folder(mistral, "bf16").expect("a conversion");
    assert_eq!(summary(&file), expected("mistral-spm")["bf16"]);
    let (_other, plain) = folder("meta-1");
    let error = convert_folder(Folder::at(&plain).mistral_format(true), "bf16").unwrap_err();
    assert!(error.to_string().contains("no weights"), "{error}");
}

#[test]
fn rank_tokenizer_in_meta_layout_is_read() {
    let (_temporary, folder) = folder("meta-4");
    let line = |byte: u8| {
        // Two base64 digits encode a byte.
        const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let digits = [DIGITS[usize::from(byte >> 2)], DIGITS[usize::from(byte & 3) << 4]];
        format!("{}== {byte}\n", String::from_utf8_lossy(&digits))
    };
    fs::write(folder.join("tokenizer.model"), (0..96).map(line).collect::<String>()).expect("a file");
    let file = convert(&folder, "bf16").expect("a conversion");
    let file = gguf_container::File::parse(file).expect("a GGUF file");
    let text = |key: &str| file.get(key).and_then(gguf_container::Value::as_str).map(str::to_owned);
    assert_eq!(text("tokenizer.ggml.model").as_deref(), Some("gpt2"));
    assert_eq!(text("tokenizer.ggml.pre").as_deref(), Some("llama-bpe"));
    assert_eq!(file.get("llama.context_length"), Some(&gguf_container::Value::U32(131_072)));
}

#[test]
fn mismatched_parameters_are_refused() {
    for (name, from, to, expected) in [
        ("meta-4", "\"n_kv_heads\": 4", "\"n_kv_heads\": 2", "8 rows of 2 heads"),
        ("meta-4", "\"n_heads\": 8", "\"n_heads\": 0", "n_heads"),
        ("meta-4", "\"n_layers\": 1", "\"n_layers\": 2", "missing tensor"),
        ("meta-moe", "\"num_experts\": 3", "\"num_experts\": 2", "not used by this architecture"),
        ("meta-2", "\"dim\"", "\"width\"", "missing key `dim`"),
        (
            "mistral-spm",
            "\"n_layers\": 2",
            "\"n_layers\": 1",
            "layers 0 to 1, but `n_layers` in config.json is 1",
        ),
        ("mistral-sharded", "\"beta\"", "\"gamma\"", "missing key `yarn.beta`"),
        (
            "mistral-spm",
            "\"dim\"",
            "\"moe\": {\"num_experts\": 4}, \"dim\"",
            "missing key `moe.num_experts_per_tok`",
        ),
        ("mistral-mixtral", "\"dim\"", "\"q_lora_rank\": 8, \"dim\"", "missing key `kv_lora_rank`"),
        ("mistral-moe", "\"num_experts\": 3", "\"num_experts\": 2", "not used by this architecture"),
        ("mistral-moe", "\"yarn\"", "\"yawn\"", "missing key `yarn`"),
        ("mistral-mixtral", "\"num_experts\": 3", "\"num_experts\": 4", "missing tensor"),
        (
            "mixtral-stacked",
            "\"num_local_experts\": 3",
            "\"num_local_experts\": 2",
            "not used by this architecture",
        ),
        (
            "mixtral-stacked",
            "\"num_experts_per_tok\"",
            "\"num_experts_per_word\"",
            "missing key `moe.num_experts_per_tok`",
        ),
    ] {
        let (_temporary, folder) = folder(name);
        let params = fs::read_to_string(folder.join("params.json")).expect("a file");
        assert!(params.contains(from), "{name}: {params}");
        fs::write(folder.join("params.json"), params.replace(from, to)).expect("a file");
        let error = convert(&folder, "bf16").expect_err(expected).to_string();
        assert!(error.contains(expected), "{name}: {error}");
    }
}
