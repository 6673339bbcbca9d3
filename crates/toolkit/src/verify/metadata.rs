//! Findings about metadata: types of keys, and problems that a change of keys causes.

use std::collections::HashSet;

use gguf_container::{Metadata, Value};
use gguf_conversion::recipes::TensorFacts;

use super::{
    contents, diffusion,
    keys::{file_type_of, not_loaded, other_kind, tokenizer_findings},
    prompts,
    report::{Finding, Severity},
};
use crate::{
    error::Error,
    metadata_json::{is_same, type_of},
};

/// Keys of another type than the specification gives them.
pub fn key_types(metadata: &Metadata) -> Vec<Finding> {
    let wrong = |(key, value): &(String, Value)| {
        let expected =
            gguf_container::specified_type(key).filter(|kind| !gguf_container::is_of_type(value, kind))?;
        let message =
            format!("`{key}`: expected type {expected} by the specification, found {}", type_of(value));
        Some(Finding::warning("key_type", message))
    };
    metadata.iter().filter_map(wrong).collect()
}

/// Invisible characters in texts about the model, which people read.
pub fn hidden_characters(metadata: &Metadata) -> Vec<Finding> {
    let texts = metadata.iter().filter(|(key, _)| key.starts_with("general."));
    texts.filter_map(|(key, value)| Some(contents::hidden(key, value.as_str()?))).flatten().collect()
}

/// The longest context that is plausible, in tokens. Published models state up to 10 million.
const MAX_CONTEXT: u64 = 1 << 28;

/// A context length that cannot be meant.
pub fn context_length(metadata: &Metadata) -> Option<Finding> {
    let key = format!("{}.context_length", metadata.get("general.architecture")?.as_str()?);
    let length = metadata.get(&key)?.as_u64()?;
    let message = match length {
        0 => format!("`{key}` is 0; programs that use it as the default context have no room for a prompt"),
        MAX_CONTEXT.. => format!("`{key}` is {length}, which is implausibly large"),
        _ => return None,
    };
    Some(Finding::warning("context_length", message))
}

/// Maximum number of layers that are looked up; llama.cpp supports 512.
const MAX_LAYERS: u64 = 1024;

/// MTP layers that the keys announce and the tensors lack. llama.cpp loads such a file, and skips the layer.
pub fn mtp_layers<'a>(metadata: &Metadata, names: impl Iterator<Item = &'a str>) -> Vec<Finding> {
    let Some(architecture) = metadata.get("general.architecture").and_then(Value::as_str) else {
        return Vec::new();
    };
    let key = format!("{architecture}.nextn_predict_layers");
    let n_layers = metadata.get(&format!("{architecture}.block_count")).and_then(Value::as_u64).unwrap_or(0);
    let n_mtp = metadata.get(&key).and_then(Value::as_u64).unwrap_or(0).min(n_layers);
    if n_mtp == 0 || n_layers > MAX_LAYERS {
        return Vec::new();
    }
    let (mut with_tensors, mut with_mtp) = (HashSet::new(), HashSet::new());
    for name in names {
        // Drafts consist of such layers alone and have these tensors once.
        if name.starts_with("nextn.") {
            return Vec::new();
        }
        let parts = name.strip_prefix("blk.").and_then(|rest| rest.split_once('.'));
        let Some((layer, part)) = parts.and_then(|(layer, part)| Some((layer.parse::<u64>().ok()?, part)))
        else {
            continue;
        };
        with_tensors.insert(layer);
        if part.starts_with("nextn.") {
            with_mtp.insert(layer);
        }
    }
    let announced = n_layers - n_mtp..n_layers;
    let finding = |layer: u64| {
        if with_tensors.contains(&layer) {
            let message =
                format!("`{key}` is {n_mtp}, so layer {layer} is skipped, but it has no `nextn.*` tensors");
            Finding::error("mtp_layer", message)
        } else {
            Finding::warning("mtp_layer", format!("`{key}` is {n_mtp}, but MTP layer {layer} has no tensors"))
        }
    };
    announced.filter(|layer| !with_mtp.contains(layer)).map(finding).collect()
}

/// Findings that new metadata cause and the old did not, without notes.
///
/// # Errors
/// A chat template that takes too much memory or time.
pub fn caused(old: &Metadata, new: &Metadata, tensors: &[TensorFacts<'_>]) -> Result<Vec<Finding>, Error> {
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
    found.extend(hidden_characters(metadata));
    let embedding = tensors.iter().find(|tensor| tensor.name == "token_embd.weight");
    found.extend(tokenizer_findings(metadata, embedding.map(|tensor| tensor.shape)).into_iter().flatten());
    if other_kind(metadata).is_none() && !tensors.is_empty() {
        found.extend(file_type_of(metadata, tensors).findings);
        if let Some(file) = diffusion::of(metadata, tensors) {
            found.extend(diffusion::refusals(diffusion::Nodes::Original, &file, metadata, tensors));
        }
        found.extend(context_length(metadata));
        found.extend(mtp_layers(metadata, tensors.iter().map(|tensor| tensor.name)));
        let shapes = tensors.iter().map(|tensor| (tensor.name, tensor.shape));
        let refusals =
            gguf_layout::loader::refusals(&gguf_models::FAMILIES, metadata, shapes).unwrap_or_default();
        found.extend(refusals.iter().map(not_loaded));
    }
    found
}
