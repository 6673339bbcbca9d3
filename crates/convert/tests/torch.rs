//! Folders of torch pickles, and of the layouts that come without a config: whole files are those of the reference.

use std::{
    fs,
    path::{Path, PathBuf},
};

use convert::{CheckpointInput, Conversion, RunOptions};
use serde_json::Value as Json;
use source::Folder;
use tempfile::TempDir;

fn golden(name: &str) -> PathBuf {
    testkit::golden_path("torch").join(name)
}

/// The folder of a golden under its own name, which becomes the model's, with the tokenizer that all of them share.
fn folder(name: &str) -> (TempDir, PathBuf) {
    let temporary = tempfile::tempdir().expect("a folder");
    let folder = temporary.path().join(name);
    fs::create_dir(&folder).expect("a folder");
    let tokenizer = if name.starts_with("mistral") { "tokenizer.model.v3" } else { "tokenizer.model" };
    fs::copy(golden("tokenizer.model"), folder.join(tokenizer)).expect("a tokenizer");
    copy(name, &folder);
    (temporary, folder)
}

/// Copies the files of a golden into a folder.
fn copy(name: &str, folder: &Path) {
    for entry in fs::read_dir(golden(name)).expect("a golden") {
        let entry = entry.expect("an entry");
        fs::copy(entry.path(), folder.join(entry.file_name())).expect("a copy");
    }
}

fn expected(name: &str) -> Json {
    let text = fs::read(golden(name).join("expected.json")).expect("an expectation");
    serde_json::from_slice(&text).expect("JSON")
}

fn convert(folder: &Path, recipe: &str) -> Result<Vec<u8>, convert::Error> {
    convert_folder(Folder::at(folder), recipe)
}

fn convert_folder(folder: Folder, recipe: &str) -> Result<Vec<u8>, convert::Error> {
    let out = folder.path().with_extension(format!("{recipe}.gguf"));
    let _replaced = fs::remove_file(&out);
    let input = CheckpointInput::open(folder, &arch::Options::default())?;
    Conversion::new(input).recipe(recipe)?.plan()?.check()?.write(&out, &RunOptions::default())?;
    Ok(fs::read(out).expect("the file was just written"))
}

/// Length and digest, as the goldens have them.
fn summary(file: &[u8]) -> Json {
    serde_json::json!([file.len(), testkit::sha256(file)])
}

#[test]
fn whole_files_are_those_of_the_reference() {
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
