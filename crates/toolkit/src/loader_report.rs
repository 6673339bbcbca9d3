//! Warnings about files that llama.cpp or ComfyUI-GGUF will not load.

use std::path::PathBuf;

use gguf_container::{Header, Value};
use gguf_conversion::{PlannedFile, recipes::TensorFacts};
use gguf_layout::loader::{Refusal, refusals};
use gguf_models::FAMILIES;

use crate::verify::{self, Finding};

/// Reasons that a warning lists.
const MAX_LISTED: usize = 3;

/// A warning about planned files that llama.cpp, or ComfyUI-GGUF for diffusion models, will not load. All outputs of a run have the
/// same keys and tensors, so the first one stands for them.
pub fn not_loaded(files: &[(PathBuf, &PlannedFile)]) -> Option<String> {
    let (_, first) = files.first()?;
    // The first shard has all keys.
    let header = Header::parse(first.plan.header_bytes()).ok()?;
    let kind = header.get("general.type").and_then(Value::as_str);
    let of_first = files.iter().filter(|(_, file)| file.recipe.name == first.recipe.name);
    let tensors = of_first.flat_map(|(_, file)| file.plan.tensors());
    let facts: Vec<TensorFacts<'_>> = tensors
        .map(|tensor| TensorFacts { name: &tensor.name, shape: tensor.shape, dtype: tensor.dtype })
        .collect();
    let shapes: Vec<_> = facts.iter().map(|tensor| (tensor.name, tensor.shape)).collect();
    if shapes.is_empty() || kind.is_some_and(|kind| kind != "model") {
        return None;
    }
    if let Some(file) = FAMILIES.diffusion_file(header.metadata(), shapes.iter().copied()) {
        let found = verify::diffusion_refusals(verify::Nodes::Original, &file, header.metadata(), &facts);
        // Notes and warnings of the plan name the others.
        let is_new = |finding: &&Finding| match finding.code {
            "architecture" => file.is_misnamed(header.metadata()),
            code => code == "type",
        };
        return found.iter().find(is_new).map(|finding| finding.message.clone());
    }
    let found = refusals(&FAMILIES, header.metadata(), shapes)?;
    let problem = match found.first()? {
        Refusal::Graph(_) => "llama.cpp will abort on this file",
        _ => "llama.cpp will not load this file",
    };
    Some(format!("{problem}: {}", listed(&found)))
}

/// The first reasons, and the number of the others.
pub fn listed(refusals: &[Refusal]) -> String {
    let shown: Vec<String> = refusals.iter().take(MAX_LISTED).map(Refusal::to_string).collect();
    match refusals.len() - shown.len() {
        0 => shown.join("; "),
        n => format!("{}; {n} more, see `gguf-inspect verify`", shown.join("; ")),
    }
}
