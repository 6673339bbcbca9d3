//! Folders of torch pickles, and of the layouts that come without a config: whole files are those of the reference.

use std::{
    fs,
    path::{Path, PathBuf},
};

use convert::{CheckpointInput, Conversion, RunOptions};
use serde_json::Value as Json;
use tempfile::TempDir;

fn golden(name: &str) -> PathBuf {
    testkit::golden_path("torch").join(name)
}

/// The folder of a golden under its own name, which becomes the model's, with the tokenizer that all of them share.
fn folder(name: &str) -> (TempDir, PathBuf) {
    let temporary = tempfile::tempdir().expect("a folder");
    let folder = temporary.path().join(name);
    fs::create_dir(&folder).expect("a folder");
    fs::copy(golden("tokenizer.model"), folder.join("tokenizer.model")).expect("a tokenizer");
    for entry in fs::read_dir(golden(name)).expect("a golden") {
        let entry = entry.expect("an entry");
        fs::copy(entry.path(), folder.join(entry.file_name())).expect("a copy");
    }
    (temporary, folder)
}

fn convert(folder: &Path, recipe: &str) -> Result<Vec<u8>, convert::Error> {
    let out = folder.with_extension(format!("{recipe}.gguf"));
    let input = CheckpointInput::open(folder, &arch::Options::default())?;
    Conversion::new(input).recipe(recipe)?.plan()?.check()?.write(&out, &RunOptions::default())?;
    Ok(fs::read(out).expect("the file was just written"))
}

#[test]
fn whole_files_are_those_of_the_reference() {
    for name in ["bin", "bin-sharded"] {
        let (_temporary, folder) = folder(name);
        let text = fs::read(folder.join("expected.json")).expect("an expectation");
        let expected: Json = serde_json::from_slice(&text).expect("JSON");
        for recipe in ["f32", "bf16"] {
            let file = convert(&folder, recipe).unwrap_or_else(|error| panic!("{name}: {error}"));
            let ours = serde_json::json!([file.len(), testkit::sha256(&file)]);
            assert_eq!(ours, expected[recipe], "{name} {recipe}");
        }
    }
}
