//! Findings about metadata: types of keys, and what a change of keys makes wrong.

use std::collections::HashSet;

use convert::recipes::TensorFacts;
use gguf::{Metadata, Value};

use super::{
    file_type_of, other_kind, prompts,
    report::{Finding, Severity},
    tokenizer_findings,
};
use crate::{
    commands::shared::metadata_json::{is_same, type_of},
    failure::Failure,
};

/// Keys of another type than the specification gives them.
pub fn key_types(metadata: &Metadata) -> Vec<Finding> {
    let wrong = |(key, value): &(String, Value)| {
        let expected = gguf::specified_type(key).filter(|kind| !gguf::is_of_type(value, kind))?;
        let message = format!("`{key}` has type {}, the specification says {expected}", type_of(value));
        Some(Finding::warning("key_type", message))
    };
    metadata.iter().filter_map(wrong).collect()
}

/// Findings that new metadata cause and the old did not, without notes.
///
/// # Errors
/// A chat template that takes too much memory or time.
pub fn caused(old: &Metadata, new: &Metadata, tensors: &[TensorFacts<'_>]) -> Result<Vec<Finding>, Failure> {
    let mut found = findings(new, tensors);
    // Templates take time: only those that are new are rendered.
    let is_changed = |key: &str| !is_same(old.get(key), new.get(key));
    let of_templates =
        new.iter().any(|(key, _)| key.starts_with("tokenizer.chat_template") && is_changed(key));
    if of_templates {
        let rendered = prompts::check(new)?.findings;
        found.extend(rendered.into_iter().filter(|finding| {
            let mut keys = new.iter().filter(|(key, _)| is_changed(key));
            keys.any(|(key, _)| finding.message.contains(&format!("`{key}`")))
        }));
    }
    let known: HashSet<String> = findings(old, tensors).into_iter().map(|finding| finding.message).collect();
    found.retain(|finding| finding.severity != Severity::Note && !known.contains(&finding.message));
    Ok(found)
}

fn findings(metadata: &Metadata, tensors: &[TensorFacts<'_>]) -> Vec<Finding> {
    let mut found = key_types(metadata);
    let embedding = tensors.iter().find(|tensor| tensor.name == "token_embd.weight");
    found.extend(tokenizer_findings(metadata, embedding.map(|tensor| tensor.shape)));
    if other_kind(metadata).is_none() && !tensors.is_empty() {
        found.extend(file_type_of(metadata, tensors).findings);
        let shapes = tensors.iter().map(|tensor| (tensor.name, tensor.shape));
        let refusals = arch::loader::refusals(metadata, shapes).unwrap_or_default();
        found.extend(refusals.iter().map(|refusal| {
            Finding::error(refusal.code(), format!("llama.cpp does not load the file: {refusal}"))
        }));
    }
    found
}
