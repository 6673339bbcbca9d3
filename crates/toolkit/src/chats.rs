//! Files of chats, which several commands read as text.

use std::path::Path;

use gguf_runtime::{
    Model,
    chat::{SpecialTokens, Transcripts, is_chats, transcripts},
};

use crate::{
    calibration_text::{Source, built_in_tokens},
    error::Error,
    eval_model,
    events::Events,
    template_guard::Budget,
    text_file,
};

/// True for a file that is read as chats: its name ends in `.jsonl`, or its contents are chats or texts in JSON.
pub fn is_file_of_chats(path: &Path) -> bool {
    let is_named = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("jsonl"));
    is_named || std::fs::read(path).is_ok_and(|bytes| is_chats(&bytes))
}

/// Reads a file of chats (see [`gguf_runtime::chat::transcripts`]) and renders it by the template of a model, within bounds of time
/// and memory.
///
/// # Errors
/// A file that cannot be read, a template that exceeds its limits, and the line of a chat that is invalid or refused.
pub fn rendered(model: &Model, path: &Path, events: &dyn Events) -> Result<Transcripts, Error> {
    let bytes = text_file::bytes(path)?;
    let template = model.file().metadata().text(gguf_tokenizer::keys::CHAT_TEMPLATE).ok().flatten();
    let (template, tokens) = (template.map(str::to_owned), SpecialTokens::of_model(model));
    let budget = Budget::for_texts(bytes.len());
    let made = budget.guarded(move || transcripts(template.as_deref(), &tokens, &bytes));
    let made = made.map_err(|error| Error::at(path, error.to_string()))?;
    let made = made.map_err(|(line, problem)| {
        let is_other_form = problem.starts_with("missing `messages`");
        let advice = "write each example as `messages` with roles and contents, or as `text`";
        Error::at(path, format!("line {line}: {problem}")).hint(is_other_form.then_some(advice))
    })?;
    if let Some(note) = made.note() {
        events.note(format!("{}: {note}", path.display()));
    }
    Ok(made)
}

/// Tokens of a file: those of its chats, concatenated, or those of a text. The path may stand for the built-in text.
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
    let made = rendered(model, path, events)?;
    made.warnings().iter().for_each(|warning| events.warning(warning));
    let tokens = made.encode(model.tokenizer()).map_err(|error| Error::at(path, error))?;
    Ok(tokens.concat())
}
