//! Files of chats, which several verbs read as text.

use std::path::Path;

use eval::{
    Model,
    chat::{SpecialTokens, Transcripts, transcripts},
};

use super::template_guard::guarded;
use crate::ui::Ui;

/// True for a file that is read as chats, one per line: its name ends in `.jsonl`.
pub(in crate::commands) fn is_file_of_chats(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("jsonl"))
}

/// Renders a file of chats (see [`eval::chat::Chat::parse`]) by the template of a model, within bounds of time and memory.
///
/// # Errors
/// A model without a template, a template that takes too much, and the line of a chat that is invalid or refused.
pub(in crate::commands) fn rendered(model: &Model, bytes: &[u8]) -> Result<Transcripts, String> {
    let template = model.file().metadata().text("tokenizer.chat_template").ok().flatten();
    let template = template.ok_or("the model has no chat template")?;
    let (template, tokens, lines) = (template.to_owned(), SpecialTokens::of_model(model), bytes.to_vec());
    let made = guarded(move || transcripts(Some(&template), &tokens, &lines));
    made.map_err(|failure| failure.message)?.map_err(|(line, problem)| format!("line {line}: {problem}"))
}

/// Tokens of a file of chats, one chat after the other.
///
/// # Errors
/// As [`rendered`]; those of the tokenizer.
pub(in crate::commands) fn tokens(model: &Model, bytes: &[u8], ui: &Ui) -> Result<Vec<u32>, String> {
    let made = rendered(model, bytes)?;
    if let Some(warning) = made.warning() {
        ui.warning(&warning);
    }
    Ok(made.encode(model.tokenizer()).map_err(|error| error.to_string())?.concat())
}
