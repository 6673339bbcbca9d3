//! The built-in calibration text: English prose, other languages, code, mathematics, and chats in the form that the chat template
//! of the model gives them.
//!
//! `scripts/calibration-mix` makes it; `builtin/MANIFEST` lists its sources and their licenses.

use gguf_refinement::moments::Texts;
use gguf_runtime::{
    Model,
    chat::{SpecialTokens, Transcripts, transcripts},
};
use gguf_types::hex;
use sha2::{Digest, Sha256};

use crate::{error::Error, events::Events, template_guard::guarded};

/// Texts of each kind.
const TEXTS: [&str; 4] = [
    include_str!("builtin/english.txt"),
    include_str!("builtin/code.txt"),
    include_str!("builtin/languages.txt"),
    include_str!("builtin/math.txt"),
];

/// Chats in JSON, one per line.
const CHATS: &str = include_str!("builtin/chats.jsonl");

/// SHA-256 of the texts and chats, in hexadecimal.
pub fn sha256() -> String {
    let mut digest = Sha256::new();
    TEXTS.iter().chain([&CHATS]).for_each(|text| digest.update(text));
    hex(&digest.finalize())
}

/// The text in chunks of at most `length` tokens, so that every beginning has about as many tokens of each kind.
///
/// # Errors
/// Errors of the tokenizer and of the chat template.
pub fn chunks(model: &Model, length: usize, events: &dyn Events) -> Result<Vec<Vec<u32>>, Error> {
    let mut kinds = Vec::with_capacity(TEXTS.len() + 1);
    for text in TEXTS {
        kinds.push(chunks_of(model, text, length)?);
    }
    kinds.push(chats(model, length, events)?);
    Ok(interleaved(kinds))
}

/// Full chunks of a text. As in other texts, the first token of a chunk is BOS if the tokenizer adds one.
fn chunks_of(model: &Model, text: &str, length: usize) -> Result<Vec<Vec<u32>>, Error> {
    let tokenizer = model.tokenizer();
    let bos = tokenizer.added_bos();
    let tokens = tokenizer.encode(text, true, false).map_err(Error::new)?;
    let chunk = |chunk: &[u32]| {
        let mut chunk = chunk.to_vec();
        if let (Some(first), Some(bos)) = (chunk.first_mut(), bos) {
            *first = bos;
        }
        chunk
    };
    Ok(tokens.chunks_exact(length).map(chunk).collect())
}

/// All tokens of [`chunks`] with 512 tokens, concatenated.
///
/// # Errors
/// As [`chunks`].
pub fn tokens(model: &Model, events: &dyn Events) -> Result<Vec<u32>, Error> {
    Ok(chunks(model, 512, events)?.concat())
}

/// Chunks of several kinds, each time the next from the kind with the fewest tokens so far.
fn interleaved(kinds: Vec<Vec<Vec<u32>>>) -> Vec<Vec<u32>> {
    let mut kinds: Vec<_> = kinds.into_iter().map(|chunks| (0, chunks.into_iter().peekable())).collect();
    let mut all = Vec::new();
    loop {
        let rest = kinds.iter_mut().filter_map(|(n, chunks)| chunks.peek().is_some().then_some((n, chunks)));
        let Some((n_tokens, chunks)) = rest.min_by_key(|(n, _)| **n) else { return all };
        if let Some(chunk) = chunks.next() {
            *n_tokens += chunk.len();
            all.push(chunk);
        }
    }
}

/// Chunks of the chats, each of which begins a chunk. Chats that the template refuses or does not write completely are left out,
/// which is noted. Without a template, the chats are plain text.
fn chats(model: &Model, length: usize, events: &dyn Events) -> Result<Vec<Vec<u32>>, Error> {
    let template = model.file().metadata().text(gguf_tokenizer::keys::CHAT_TEMPLATE).ok().flatten();
    let Some(template) = template else {
        return chunks_of(model, &plain_chats(), length);
    };
    let (template, special) = (template.to_owned(), SpecialTokens::of_model(model));
    let made: Vec<Option<Transcripts>> = guarded(move || {
        let render = |line: &str| transcripts(Some(&template), &special, line.as_bytes()).ok();
        CHATS.lines().map(render).collect()
    })?;
    let n_chats = made.len();
    let used: Vec<Transcripts> =
        made.into_iter().flatten().filter(|chat| chat.n_incomplete + chat.n_moved_system == 0).collect();
    if used.len() < n_chats {
        let n = n_chats - used.len();
        events.note(format!(
            "{n} of {n_chats} built-in chats are not used: the chat template does not support them"
        ));
    }
    let mut chunks = Vec::new();
    for chat in used {
        // The beginning of each chat.
        let texts = Texts::from_transcripts(model, &chat, length).map_err(Error::new)?;
        chunks.extend(texts.chunks().first().cloned());
    }
    Ok(chunks)
}

/// Questions and answers without a template; calls of tools are left out.
fn plain_chats() -> String {
    let mut text = String::new();
    for line in CHATS.lines() {
        let chat: serde_json::Value = serde_json::from_str(line).unwrap_or_default();
        for message in chat["messages"].as_array().into_iter().flatten() {
            let name = match message["role"].as_str() {
                Some("user") => "Question",
                Some("assistant") => "Answer",
                _ => continue,
            };
            if let Some(content) = message["content"].as_str().filter(|content| !content.is_empty()) {
                text += &format!("{name}: {content}\n\n");
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use gguf_runtime::chat::Chat;

    #[test]
    fn kinds_take_turns_by_tokens() {
        let chunk = |kind: u32, n: usize| vec![kind; n];
        let kinds = vec![vec![chunk(0, 4); 3], vec![chunk(1, 2); 3], vec![]];
        let kinds: Vec<u32> = interleaved(kinds).iter().map(|chunk| chunk[0]).collect();
        assert_eq!(kinds, [0, 1, 1, 0, 1, 0]);
    }

    #[test]
    fn texts_match_their_manifest() {
        let manifest = include_str!("builtin/MANIFEST");
        let names = ["english.txt", "code.txt", "languages.txt", "math.txt", "chats.jsonl"];
        for (name, text) in names.iter().zip(TEXTS.iter().chain([&CHATS])) {
            let digest = hex(&Sha256::digest(text));
            let entry = format!("name = \"{name}\"\nbytes = {}\nsha256 = \"{digest}\"\n", text.len());
            assert!(manifest.contains(&entry), "run scripts/calibration-mix: {entry}");
        }
    }

    #[test]
    fn chats_are_valid() {
        let mut n_tools = 0;
        for line in CHATS.lines() {
            Chat::parse(line).unwrap();
            n_tools += usize::from(line.contains("\"tool_calls\""));
        }
        assert!(n_tools >= 4);
        assert!(plain_chats().contains("Question: What causes the seasons?\n\nAnswer: The axis"));
    }
}
