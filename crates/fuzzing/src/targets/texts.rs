//! Texts: templates, and JSON of the command line.

use gguf_runtime::chat::{Conversation, render};
use gguf_toolkit::{
    check_against::record::Record, metadata_json::of_json as metadata_of_json, recipe_file::RecipeFile,
};

use crate::pieces;

pub(super) fn template(bytes: &[u8]) -> bool {
    let Ok(template) = std::str::from_utf8(bytes) else { return false };
    let renders = |conversation| render(template, &conversation, "<s>", "</s>").is_ok();
    Conversation::fixed().into_iter().filter(|chat| renders(chat.clone())).count() > 0
}

pub(super) fn recipe(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_ok_and(|text| RecipeFile::parse(text).is_ok())
}

/// Both files of a record, and the values of all arrays.
pub(super) fn record(bytes: &[u8]) -> bool {
    let files = pieces::split(bytes);
    let json = pieces::of(&files, "record.json").and_then(|json| std::str::from_utf8(json).ok());
    let arrays = pieces::of(&files, "record.f32").unwrap_or_default().to_vec();
    let Some(Ok(record)) = json.map(|json| Record::parse(json, arrays.into())) else { return false };
    let facts = &record.facts;
    let of_weights = facts.weights.iter().filter_map(|weight| weight.rows.as_ref());
    let of_sequences = facts
        .sequences
        .iter()
        .flat_map(|sequence| [Some(&sequence.logits), sequence.inputs.as_ref()].into_iter().flatten());
    of_weights
        .chain(of_sequences)
        .all(|array| record.values(array).len() as u64 == array.shape.iter().product::<u64>())
}

pub(super) fn metadata_json(bytes: &[u8]) -> bool {
    let Ok(json) = serde_json::from_slice(bytes) else { return false };
    metadata_of_json(&json).is_ok()
}
