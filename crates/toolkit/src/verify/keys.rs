//! Checks of metadata keys that need at most the names, shapes and types of the tensors.

use gguf_container::{Metadata, Value};
use gguf_conversion::recipes::{StatedType, TensorFacts, stated_type};
use gguf_layout::loader::Refusal;

use super::report::{Check, Finding};

/// `general.type` of an adapter file.
pub const ADAPTER: &str = "adapter";

/// Kind of a file that is not a model.
pub fn other_kind(metadata: &Metadata) -> Option<&str> {
    metadata.get("general.type").and_then(Value::as_str).filter(|kind| *kind != "model")
}

/// A reason why llama.cpp does not load a file.
pub fn not_loaded(refusal: &Refusal) -> Finding {
    let message = match refusal {
        Refusal::Graph(problem) => format!("llama.cpp loads the file and then aborts: {problem}"),
        refusal => format!("llama.cpp does not load the file: {refusal}"),
    };
    Finding::error(refusal.code(), message)
}

/// Findings about the tokenizer of a file with an embedding of this shape, if there is a tokenizer.
pub fn tokenizer_findings(metadata: &Metadata, embedding: Option<gguf_types::Shape>) -> Option<Vec<Finding>> {
    let problems = gguf_tokenizer::check(metadata)?;
    let finding = |problem: &gguf_tokenizer::Problem| {
        if problem.is_minor() {
            Finding::warning(problem.code(), problem)
        } else {
            Finding::error(problem.code(), problem)
        }
    };
    let mut found: Vec<Finding> = problems.iter().map(finding).collect();
    let tokens =
        metadata.get("tokenizer.ggml.tokens").and_then(Value::as_array).map_or(0, gguf_container::Array::len);
    // llama.cpp requires one row of the embedding for each token.
    if let Some(rows) =
        embedding.map(|shape| shape.dim(1)).filter(|rows| tokens > 0 && *rows != tokens as u64)
    {
        let message = format!("`token_embd.weight`: expected {tokens} rows, one per token, found {rows}");
        found.push(Finding::error("tokenizer_length", message));
    }
    Some(found)
}

/// Comparison of `general.file_type` with the types of the tensors.
pub fn file_type_of(metadata: &Metadata, tensors: &[TensorFacts<'_>]) -> Check {
    let mut check = Check::new("file type");
    match stated_type(&gguf_models::FAMILIES, metadata, tensors) {
        StatedType::Agrees { name } => check.summary = name.to_owned(),
        StatedType::Absent => return check.skipped("missing `general.file_type`"),
        StatedType::NoMatrices => return check.skipped("no matrices"),
        StatedType::Unknown { id } => {
            check.push(Finding::error("file_type", format!("unknown `general.file_type` {id}")));
        }
        StatedType::Differs { name, expected, found } => {
            let message =
                format!("`general.file_type` is {name}, which uses {expected}, but most weights are {found}");
            check.push(Finding::error("file_type", message));
        }
        StatedType::WithoutOwn { name, expected, found } => {
            let message = format!(
                "`general.file_type` is {name}, but no tensor is {expected}; most weights are {found}"
            );
            check.push(Finding::warning("file_type", message));
        }
        StatedType::Chosen { name, found } => {
            let message = format!(
                "`general.file_type` is {name}, which set the target size; the type search chose {found} for most weights"
            );
            check.summary = name.to_owned();
            check.push(Finding::note("file_type", message));
        }
        StatedType::OfOther { name, other } => {
            let message = format!("`general.file_type` is {name}, but the tensor types are those of {other}");
            check.push(Finding::warning("file_type", message));
        }
        _ => {}
    }
    check
}
