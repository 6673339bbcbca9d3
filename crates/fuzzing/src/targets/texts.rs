//! Texts: templates, and JSON of the command line.

use gguf_runtime::chat::{Conversation, render};
use gguf_toolkit::{metadata_json::of_json as metadata_of_json, recipe_file::RecipeFile};

pub(super) fn template(bytes: &[u8]) -> bool {
    let Ok(template) = std::str::from_utf8(bytes) else { return false };
    let renders = |conversation| render(template, &conversation, "<s>", "</s>").is_ok();
    Conversation::fixed().into_iter().filter(|chat| renders(chat.clone())).count() > 0
}

pub(super) fn recipe(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_ok_and(|text| RecipeFile::parse(text).is_ok())
}

pub(super) fn metadata_json(bytes: &[u8]) -> bool {
    let Ok(json) = serde_json::from_slice(bytes) else { return false };
    metadata_of_json(&json).is_ok()
}
