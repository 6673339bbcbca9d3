//! Files of chats, which several commands read as text.

use std::path::Path;

use gguf_runtime::{
    Model,
    chat::{SpecialTokens, Transcripts, transcripts},
};

use crate::{
    calibration_text::{Source, built_in_tokens},
    error::Error,
    eval_model,
    events::Events,
    template_guard::guarded,
    text_file,
};

/// True for a file that is read as chats, one per line: its name ends in `.jsonl`.
pub fn is_file_of_chats(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("jsonl"))
}

/// Renders a file of chats (see [`gguf_runtime::chat::Chat::parse`]) by the template of a model, within bounds of time and memory.
///
/// # Errors
/// A model without a template, a template that exceeds its limits, and the line of a chat that is invalid or refused.
pub fn rendered(model: &Model, bytes: &[u8]) -> Result<Transcripts, String> {
    let template = model.file().metadata().text(gguf_tokenizer::keys::CHAT_TEMPLATE).ok().flatten();
    let template = template.ok_or("the model has no chat template")?;
    let (template, tokens, lines) = (template.to_owned(), SpecialTokens::of_model(model), bytes.to_vec());
    let made = guarded(move || transcripts(Some(&template), &tokens, &lines));
    made.map_err(|error| error.to_string())?.map_err(|(line, problem)| format!("line {line}: {problem}"))
}

/// Tokens of a file: those of its chats, one after the other, or those of a text. The path may stand for the built-in text.
///
/// # Errors
/// A file that cannot be read; those of [`rendered`] and of the tokenizer.
pub fn tokens(model: &Model, path: &Path, events: &dyn Events) -> Result<Vec<u32>, Error> {
    match Source::of(path)? {
        Source::File(_) => {}
        Source::BuiltIn => return built_in_tokens(model, events),
        Source::Sampled => {
            let message = "`self` is not supported here: the model would be sampled in every run";
            return Err(Error::usage(message).hint(["pass a text, or `builtin`"]));
        }
    }
    if !is_file_of_chats(path) {
        return eval_model::tokens(model, path, events);
    }
    let bytes = text_file::bytes(path)?;
    let made = rendered(model, &bytes).map_err(|problem| Error::at(path, problem))?;
    if let Some(warning) = made.warning() {
        events.warning(&warning);
    }
    let tokens = made.encode(model.tokenizer()).map_err(|error| Error::at(path, error))?;
    Ok(tokens.concat())
}
