//! Texts to calibrate with and to measure on: files, chats in the form that the model's template gives them, or a small mix of our own.

use std::{fs, path::PathBuf};

use eval::{
    Model,
    chat::{Message, prompt},
    chunks::{Chunk, Settings, chunks_of_text},
};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::work::hex;
use crate::{
    commands::shared::{eval_model::at, template_guard::guarded},
    failure::Failure,
    ui::printable,
};

/// The mix that calibrates where no file is given.
const CALIBRATION_MIX: &str = include_str!("mix/calibration.txt");
/// What is measured where no file is given; none of it is in the other.
const EVALUATION_MIX: &str = include_str!("mix/evaluation.txt");

/// What a text is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum For {
    Calibration,
    Evaluation,
}

/// A text that was read.
#[derive(Debug, Clone)]
pub struct Text {
    /// What it is called in the card: the names of its files, or that it is ours.
    pub names: Vec<String>,
    /// SHA-256 of its tokens, in hexadecimal.
    pub digest: String,
    /// The windows that it has.
    pub windows: Vec<Chunk>,
}

/// Reads texts one after the other, and cuts them into windows of `context` tokens.
///
/// # Errors
/// A file that cannot be read or tokenized, a template that fails, less than two windows.
pub fn read(model: &Model, files: &[PathBuf], purpose: For, context: usize) -> Result<Text, Failure> {
    let (mut names, mut tokens) = (Vec::new(), Vec::new());
    for file in files {
        names.push(file.file_name().unwrap_or(file.as_os_str()).to_string_lossy().into_owned());
        let bytes = fs::read(file).map_err(|error| Failure::cannot_open(file, error))?;
        let is_chats = file.extension().is_some_and(|it| it.eq_ignore_ascii_case("jsonl"));
        let read = match is_chats {
            true => chats(model, &bytes).map_err(|problem| Failure::at(file, problem))?,
            false => {
                model.tokenizer().encode(bytes, true, false).map_err(|error| Failure::at(file, error))?
            }
        };
        tokens.extend(read);
    }
    if files.is_empty() {
        let (name, mix) = match purpose {
            For::Calibration => ("the mix of gguf-tools for calibration", CALIBRATION_MIX),
            For::Evaluation => ("the mix of gguf-tools for evaluation", EVALUATION_MIX),
        };
        names.push(name.to_owned());
        tokens = model.tokenizer().encode(mix, true, false).map_err(Failure::new)?;
    }
    let mut hasher = Sha256::new();
    tokens.iter().for_each(|token| hasher.update(token.to_le_bytes()));
    let settings = Settings { context, n_chunks: None, stride: None };
    let windows = chunks_of_text(model, &tokens, &settings)
        .map_err(|error| at(&PathBuf::from(printable(&names.join(", "))), error))?;
    Ok(Text { names, digest: hex(&hasher.finalize()), windows })
}

/// Tokens of a file of chats: a JSON value on each line, an array of messages or an object with one under `messages` or
/// `conversations`.
fn chats(model: &Model, bytes: &[u8]) -> Result<Vec<u32>, String> {
    let tokenizer = model.tokenizer();
    let text_of = |id: Option<u32>| {
        let text = id.and_then(|id| tokenizer.token_text(id));
        text.map_or_else(String::new, |text| String::from_utf8_lossy(text).into_owned())
    };
    let (bos, eos) = (text_of(tokenizer.bos()), text_of(tokenizer.eos()));
    let template = model.file().metadata().text("tokenizer.chat_template").ok().flatten();
    let template = template.ok_or("the model has no chat template to render it with")?;
    let text = std::str::from_utf8(bytes).map_err(|_| "it is not UTF-8")?;
    let mut tokens = Vec::new();
    for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let problem = |what: &dyn std::fmt::Display| format!("line {}: {what}", index + 1);
        let json: Value = serde_json::from_str(line).map_err(|error| problem(&error))?;
        let messages =
            messages(&json).ok_or_else(|| problem(&"there are no messages with a role and a text"))?;
        let (template, bos, eos) = (template.to_owned(), bos.clone(), eos.clone());
        let rendered = guarded(move || {
            let messages: Vec<Message<'_>> =
                messages.iter().map(|(role, content)| (role.as_str(), content.as_str())).collect();
            prompt(Some(&template), &messages, &bos, &eos)
        });
        let rendered =
            rendered.map_err(|failure| problem(&failure.message))?.map_err(|error| problem(&error))?;
        // Special tokens are the template's own, so that none is put in front of them.
        tokens.extend(tokenizer.encode(&rendered, false, true).map_err(|error| problem(&error))?);
    }
    Ok(tokens)
}

/// Role and text of each message: keys as OpenAI or as ShareGPT spell them.
fn messages(json: &Value) -> Option<Vec<(String, String)>> {
    let list = json.as_array().or_else(|| json.get("messages")?.as_array());
    let list = list.or_else(|| json.get("conversations")?.as_array())?;
    let message = |message: &Value| {
        let role = message.get("role").or_else(|| message.get("from"))?.as_str()?;
        let role = match role {
            "human" => "user",
            "gpt" => "assistant",
            other => other,
        };
        let content = message.get("content").or_else(|| message.get("value"))?;
        let text = match content {
            Value::String(text) => text.clone(),
            // Parts of a message: those that are text.
            Value::Array(parts) => parts.iter().filter_map(|part| part.get("text")?.as_str()).collect(),
            _ => return None,
        };
        Some((role.to_owned(), text))
    };
    list.iter().map(message).collect::<Option<Vec<_>>>().filter(|messages| !messages.is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn messages_in_every_spelling() {
        let expected =
            Some(vec![("user".to_owned(), "Hi".to_owned()), ("assistant".to_owned(), "Hello".to_owned())]);
        let plain = json!([{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]);
        let parts = json!([{"role": "user", "content": [{"type": "text", "text": "Hi"}]}, {"role": "assistant", "content": "Hello"}]);
        let share = json!([{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Hello"}]);
        for json in [
            plain.clone(),
            json!({"messages": plain}),
            json!({"messages": parts}),
            json!({"conversations": share}),
        ] {
            assert_eq!(messages(&json), expected, "{json}");
        }
        for json in [
            json!([]),
            json!({"text": "Hi"}),
            json!([{"role": "user"}]),
            json!([{"role": 1, "content": "x"}]),
        ] {
            assert_eq!(messages(&json), None, "{json}");
        }
    }

    #[test]
    fn the_two_mixes_have_no_line_in_common() {
        let lines = |text: &'static str| text.lines().map(str::trim).filter(|line| line.len() > 20);
        for line in lines(EVALUATION_MIX) {
            assert!(!lines(CALIBRATION_MIX).any(|other| other == line), "{line}");
        }
    }
}
