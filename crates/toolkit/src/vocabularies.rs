//! Comparison of the tokenizers of two files that read the same token ids.

use std::path::Path;

use gguf_container::{Array, Metadata, Value};
use gguf_runtime::Model;

use crate::{events::Events, text::printable};

/// An open model and the path that it was opened by.
#[derive(Clone, Copy)]
pub struct Named<'a> {
    /// The path.
    pub path: &'a Path,
    /// The model.
    pub model: &'a Model,
}

/// Warns if `other` reads token ids of `base` that have another meaning in its own tokenizer.
pub fn warn_of_difference(base: Named<'_>, other: Named<'_>, events: &dyn Events) {
    if let Some(found) = difference(base.model.file().metadata(), other.model.file().metadata()) {
        events.warning(format!(
            "{}: the tokenizer differs from that of {}, which provides the token ids for both models: {found}",
            other.path.display(),
            base.path.display()
        ));
    }
}

/// The first difference between two tokenizers that gives a text other ids, or an id another meaning.
fn difference(base: &Metadata, other: &Metadata) -> Option<String> {
    let text = |metadata: &Metadata, key: &str, default: &str| {
        metadata.get(key).and_then(Value::as_str).unwrap_or(default).to_owned()
    };
    for (key, default) in [("tokenizer.ggml.model", "none"), ("tokenizer.ggml.pre", "default")] {
        let (ours, theirs) = (text(base, key, default), text(other, key, default));
        if ours != theirs {
            return Some(format!("`{key}` is `{theirs}` instead of `{ours}`"));
        }
    }
    for (key, what) in [("tokenizer.ggml.tokens", "token"), ("tokenizer.ggml.merges", "merge")] {
        if let Some(found) = difference_of_texts(base, other, key, what) {
            return Some(found);
        }
    }
    // A file without types has plain tokens, and one without scores has zeros.
    for (key, what, default) in
        [("tokenizer.ggml.token_type", "type", 1.0), ("tokenizer.ggml.scores", "score", 0.0)]
    {
        let (ours, theirs) = (numbers(base.get(key)), numbers(other.get(key)));
        let of = |found: &[f64], at: usize| found.get(at).copied().unwrap_or(default);
        let at = (0..ours.len().max(theirs.len())).find(|at| of(&ours, *at) != of(&theirs, *at));
        if let Some(at) = at {
            let (ours, theirs) = (of(&ours, at), of(&theirs, at));
            return Some(format!("the {what} of token {at} is {theirs} instead of {ours}"));
        }
    }
    None
}

/// The first entry of a list of texts that differs.
fn difference_of_texts(base: &Metadata, other: &Metadata, key: &str, what: &str) -> Option<String> {
    let lists = [base, other].map(|metadata| metadata.texts(key).ok().flatten());
    let entry = |list: usize, at: usize| lists[list].as_ref().and_then(|texts| texts.get(at));
    let len = |list: usize| lists[list].as_ref().map_or(0, |texts| texts.len());
    let at = (0..len(0).max(len(1))).find(|at| entry(0, *at) != entry(1, *at))?;
    let shown = |list: usize| match entry(list, at) {
        Some(text) => format!("\"{}\"", printable(&String::from_utf8_lossy(text))),
        None => "missing".to_owned(),
    };
    Some(format!("{what} {at} is {} instead of {}", shown(1), shown(0)))
}

/// The numbers of a list.
fn numbers(value: Option<&Value>) -> Vec<f64> {
    match value {
        Some(Value::Array(Array::F32(found))) => found.iter().map(|number| f64::from(*number)).collect(),
        Some(Value::Array(Array::I32(found))) => found.iter().map(|number| f64::from(*number)).collect(),
        Some(Value::Array(Array::U32(found))) => found.iter().map(|number| f64::from(*number)).collect(),
        _ => Vec::new(),
    }
}
