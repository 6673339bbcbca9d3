//! Contents of a chat template apart from messages: addresses, invisible characters, instructions, text that depends on words in a
//! message, and special tokens that the tokenizer does not have.
//!
//! A template is a program that writes part of every prompt, so a manipulated one changes what a model answers. The checks render
//! the template with messages that the template should copy unchanged, and compare.

use std::collections::BTreeSet;

use gguf_runtime::chat::{SpecialTokens, literals};
use gguf_tokenizer::Encoder;

use super::{
    behavior::Behavior,
    report::Finding,
    trials::{ANSWER, MAX_LISTED, NEXT, SHOWN, SYSTEM, USER, is_copy, list, render, sentences},
};
use crate::{
    error::Error,
    template_guard::Budget,
    text::{is_invisible, shortened},
};

/// Code of the finding about marks of a template that the vocabulary lacks.
pub const UNKNOWN_MARKS: &str = "template_token";
/// Texts of a template that are tried as messages.
const MAX_TRIED: usize = 400;
/// Characters of the text after an answer that are examined.
const MAX_BETWEEN: usize = 4096;
/// Longest text that is tried, in bytes.
const MAX_TRIED_LEN: usize = 200;

/// Findings about the contents of the template `key`. An encoder is needed for findings about special tokens.
///
/// # Errors
/// A template that takes too much memory or time.
pub fn findings(
    budget: &Budget,
    key: &str,
    template: &str,
    tokens: &SpecialTokens,
    encoder: Option<&Encoder>,
) -> Result<Vec<Finding>, Error> {
    let Ok(texts) = literals(template) else { return Ok(Vec::new()) };
    let mut found = hidden(key, template);
    let addresses: BTreeSet<&str> = texts.iter().flat_map(|text| addresses(text)).collect();
    if let Some(listed) = list(addresses) {
        found.push(Finding::warning("template_address", format!("`{key}` contains {listed}")));
    }
    let (source, tokens) = (template.to_owned(), tokens.clone());
    let (seen, behavior) =
        budget.guarded(move || (Seen::of(&source, &texts, &tokens), Behavior::of(&source, &tokens)))?;
    if let Some(listed) = list(seen.triggers.iter().map(String::as_str)) {
        let message = format!("`{key}` adds or changes text if a message contains {listed}");
        found.push(Finding::warning("template_trigger", message));
    }
    if let Some((first, others)) = seen.own.split_first() {
        let more = gguf_types::and_more(others.len());
        let message =
            format!("`{key}` adds instructions to every prompt: `{}`{more}", shortened(first, SHOWN));
        found.push(Finding::warning("template_instruction", message));
    }
    found.extend(behavior.findings(key));
    if let Some(encoder) = encoder {
        found.extend(special_tokens(key, &seen, encoder));
    }
    Ok(found)
}

/// A finding for each kind of character that readers do not see.
pub fn hidden(key: &str, text: &str) -> Vec<Finding> {
    let mut characters = BTreeSet::new();
    let mut previous = ' ';
    for character in text.chars() {
        // Joins the parts of an emoji.
        let is_joint = character == '\u{200d}' && !previous.is_ascii();
        if is_hidden(character) && !is_joint {
            characters.insert(character);
        }
        previous = character;
    }
    let names: Vec<String> = characters.iter().map(|c| format!("U+{:04X}", u32::from(*c))).collect();
    if names.is_empty() {
        return Vec::new();
    }
    let shown = names.len().min(MAX_LISTED);
    let listed = names[..shown].join(", ") + &gguf_types::and_more(names.len() - shown);
    vec![Finding::warning("hidden_characters", format!("`{key}` has invisible characters: {listed}"))]
}

fn is_hidden(character: char) -> bool {
    let is_control = character.is_control() && !['\n', '\r', '\t'].contains(&character);
    is_control || is_invisible(character)
}

/// The addresses in a text.
fn addresses(text: &str) -> Vec<&str> {
    let is_end = |c: char| c.is_whitespace() || "\"'`<>()[]{}\\".contains(c);
    let words = text.split(is_end);
    words.filter(|word| word.starts_with("www.") || word.contains("://")).collect()
}

/// Facts about a template that its prompts show.
struct Seen {
    /// Words in a message that change the text around it.
    triggers: Vec<String>,
    /// Sentences of the template in a prompt that has a system message.
    own: Vec<String>,
    /// A chat of several turns.
    chat: Option<String>,
}

impl Seen {
    fn of(template: &str, texts: &[String], tokens: &SpecialTokens) -> Seen {
        let render = |messages: &[(&str, &str)]| render(template, messages, tokens).ok();
        let both = render(&[("system", SYSTEM), ("user", USER)]);
        let alone = render(&[("user", USER)]);
        let chat = render(&[("user", USER), ("assistant", ANSWER), ("user", NEXT)]);
        let mut triggers = Vec::new();
        let tried: BTreeSet<&str> =
            texts.iter().map(|text| text.trim()).filter(|text| is_trigger(text)).collect();
        for word in tried.into_iter().take(MAX_TRIED) {
            let is_changed = [word.to_owned(), format!("{USER} {word} {USER}")].iter().any(|message| {
                let by_user = alone.as_ref().is_some_and(|prompt| {
                    render(&[("user", message)]).is_none_or(|other| !is_copy(prompt, USER, message, &other))
                });
                by_user
                    || both.as_ref().is_some_and(|prompt| {
                        let other = render(&[("system", message), ("user", USER)]);
                        other.is_none_or(|other| !is_copy(prompt, SYSTEM, message, &other))
                    })
                    || chat.as_ref().is_some_and(|prompt| {
                        let other = render(&[("user", USER), ("assistant", message), ("user", NEXT)]);
                        other.is_none_or(|other| !is_copy(prompt, ANSWER, message, &other))
                    })
            });
            if is_changed {
                triggers.push(word.to_owned());
            }
        }
        // Text that contains a trigger acts as one.
        let found = triggers.clone();
        triggers.retain(|word: &String| {
            !found.iter().any(|other| other != word && word.contains(other.as_str()))
        });
        Seen { triggers, own: both.as_deref().map(sentences).unwrap_or_default(), chat }
    }
}

/// True for words: templates look for their own markup in messages, for example `</think>`.
fn is_trigger(text: &str) -> bool {
    let is_within = |begin: char, end: char| text.starts_with(begin) && text.ends_with(end);
    let is_markup =
        is_within('<', '>') || is_within('[', ']') || text.starts_with('/') || text.starts_with("<|");
    let letters = text.chars().filter(|c| c.is_alphabetic()).count();
    !is_markup && letters >= 3 && text.len() <= MAX_TRIED_LEN
}

/// Marks of a template that the tokenizer splits, and answers without an end.
fn special_tokens(key: &str, seen: &Seen, encoder: &Encoder) -> Vec<Finding> {
    let Some(chat) = &seen.chat else { return Vec::new() };
    let mut found = Vec::new();
    let unknown: BTreeSet<&str> = marks(chat).into_iter().filter(|mark| encoder.id(mark).is_none()).collect();
    if let Some(listed) = list(unknown) {
        let message = format!("`{key}` has marks that are not in the vocabulary: {listed}");
        found.push(Finding::warning(UNKNOWN_MARKS, message));
    }
    let after = chat.split_once(ANSWER).and_then(|(_, rest)| rest.split_once(NEXT));
    if let Some((between, _)) = after {
        let ends = encoder.ends();
        let between = between.trim_start();
        let end = between.char_indices().nth(MAX_BETWEEN).map_or(between.len(), |(end, _)| end);
        let between = &between[..end];
        let ids = encoder.encode(between, false, true).unwrap_or_default();
        let first = ids.first().and_then(|id| encoder.token_text(*id)).map(String::from_utf8_lossy);
        let has_end = ids.iter().any(|id| ends.contains(id));
        // Text after an answer may also be the beginning of the next message.
        let mark =
            first.filter(|mark| mark.len() > 1 && mark.starts_with('<') && between.starts_with(&**mark));
        if let Some(mark) = mark.filter(|_| !has_end && !ends.is_empty()) {
            let message = format!(
                "`{key}` ends answers with `{}`, which is not an end-of-generation token, so the model may not stop",
                shortened(&mark, SHOWN)
            );
            found.push(Finding::warning("template_end", message));
        }
    }
    found
}

/// Texts such as `<|im_start|>`.
fn marks(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for (begin, end) in [("<|", "|>"), ("<｜", "｜>")] {
        let mut rest = text;
        while let Some(at) = rest.find(begin) {
            let inner = &rest[at + begin.len()..];
            // A mark ends before the next one begins, so no text is searched twice.
            let stop = inner.find(|c: char| c.is_whitespace() || c == '<').unwrap_or(inner.len());
            if let Some(len) = inner[..stop].find(end) {
                found.push(&rest[at..][..begin.len() + len + end.len()]);
            }
            rest = inner;
        }
    }
    found
}
