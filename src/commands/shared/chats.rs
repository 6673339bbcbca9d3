//! Files of chats, which several verbs read as text.

use std::path::Path;

use eval::{Model, chat::transcripts};

use super::template_guard::guarded;
use crate::ui::Ui;

/// True for a file that is read as chats, one per line: its name ends in `.jsonl`.
pub(in crate::commands) fn is_file_of_chats(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("jsonl"))
}

/// Tokens of a file of chats (see [`eval::chat::Chat::parse`]).
///
/// # Errors
/// A line that holds no chat, or that the template does not take.
pub(in crate::commands) fn tokens(model: &Model, bytes: &[u8], ui: &Ui) -> Result<Vec<u32>, String> {
    let tokenizer = model.tokenizer();
    let text_of = |id: Option<u32>| {
        let text = id.and_then(|id| tokenizer.token_text(id));
        text.map_or_else(String::new, |text| String::from_utf8_lossy(text).into_owned())
    };
    let (bos, eos) = (text_of(tokenizer.bos()), text_of(tokenizer.eos()));
    let template = model.file().metadata().text("tokenizer.chat_template").ok().flatten();
    let template = template.ok_or("the model has no chat template to render it with")?;
    let (template, lines) = (template.to_owned(), bytes.to_vec());
    let made = guarded(move || transcripts(Some(&template), &bos, &eos, &lines));
    let made = made.map_err(|failure| failure.message)?;
    let made = made.map_err(|(line, problem)| format!("line {line}: {problem}"))?;
    if let Some(warning) = made.warning() {
        ui.warning(&warning);
    }
    let mut tokens = Vec::new();
    for text in &made.texts {
        // Special tokens are the template's own, so that none is put in front of them.
        tokens.extend(tokenizer.encode(text, false, true).map_err(|error| error.to_string())?);
    }
    Ok(tokens)
}
