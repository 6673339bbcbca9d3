//! Every quantized checkpoint of `golden/forms/` at f32 and bf16: files equal those of the reference's
//! converter. Some also at quantized types, for which weights that otherwise stay in blocks are requantized
//! like in llama-quantize.

use std::{fmt::Write as _, fs, path::Path};

use gguf_checkpoint::Folder;
use gguf_conversion::CheckpointInput;
use serde_json::{Value as Json, json};

use crate::families::options;

/// Types for which the reference needs two steps.
const QUANTIZED: &[&str] = &["q8_0", "q4_k_m"];

fn convert_to(
    folder: &Path,
    expected: &Json,
    recipe: &str,
    path: &Path,
) -> Result<(), gguf_conversion::Error> {
    // The reference and the kernels read zeros of all ones differently.
    let folder = Folder::at(folder).unmasked_zeros(folder.to_string_lossy().ends_with("-unmasked"));
    crate::write(CheckpointInput::open(folder.forms(gguf_models::FORMS), &options(expected))?, recipe, path)
}

/// Differences of a file from the expected one: tensors first, with types and bytes.
fn differences(path: &Path, recipe: &str, expected: &Json) -> String {
    let mut wrong = String::new();
    if gguf_testkit::sha256(&fs::read(path).unwrap()) == expected["whole"][recipe] {
        return wrong;
    }
    let file = gguf_container::File::open(path).unwrap();
    let listed = expected["tensors"].as_array().unwrap();
    let names = |names: Vec<&str>| names.join(" ");
    let (ours, theirs) = (
        names(file.tensors().iter().map(|tensor| tensor.name.as_str()).collect()),
        names(listed.iter().filter_map(|tensor| tensor[0].as_str()).collect()),
    );
    if ours != theirs {
        let _ = writeln!(wrong, "  tensors {ours}\n  instead {theirs}");
    }
    for tensor in file.tensors() {
        let ours = json!([tensor.dtype.name(), gguf_testkit::sha256(file.data(tensor).unwrap())]);
        let Some(listed) = listed.iter().find(|listed| listed[0] == tensor.name.as_str()) else { continue };
        let expected = listed[2].get(recipe).unwrap_or(&listed[2]["f32"]);
        if ours != *expected {
            let _ = writeln!(wrong, "  {} {ours} instead of {expected}", tensor.name);
        }
    }
    if wrong.is_empty() { "  keys or padding\n".to_owned() } else { wrong }
}

#[test]
fn files_match_reference() {
    let temporary = tempfile::tempdir().unwrap();
    let mut wrong = String::new();
    let mut n_quantized = 0;
    for name in gguf_testkit::form_names() {
        let folder = gguf_testkit::form(&name);
        let expected = gguf_testkit::read_json(folder.join("expected.json"));
        let whole = expected["whole"].as_object().unwrap();
        let quantized = whole.keys().map(String::as_str).filter(|recipe| QUANTIZED.contains(recipe));
        for recipe in ["f32", "bf16"].into_iter().chain(quantized) {
            n_quantized += usize::from(QUANTIZED.contains(&recipe));
            let path = temporary.path().join(format!("{name}-{recipe}.gguf"));
            let differs = match convert_to(&folder, &expected, recipe, &path) {
                Err(error) => format!("  {error}\n"),
                Ok(()) => differences(&path, recipe, &expected),
            };
            if !differs.is_empty() {
                let _ = writeln!(wrong, "{name} {recipe}:\n{differs}");
            }
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
    assert!(n_quantized >= 4, "{n_quantized} quantized files");
}
