//! Chats that templates are tried with.

use gguf_runtime::chat::{Chat, ChatError, Conversation, Date, Settings, SpecialTokens, render_chat};

use crate::text::shortened;

/// Words of a line that is a sentence.
const SENTENCE: usize = 4;
/// Texts that a finding lists.
pub const MAX_LISTED: usize = 5;
/// Characters of a text that a finding shows.
pub const SHOWN: usize = 60;

/// A message of the user, of the system and of the model, which no template has as its own text.
pub const USER: &str = "Qvrzuser";
pub const SYSTEM: &str = "Qvrzsystem";
pub const ANSWER: &str = "Qvrzanswer";
pub const NEXT: &str = "Qvrznext";

/// The first texts, quoted; `None` for an empty list.
pub fn list<'a>(texts: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let quoted: Vec<String> = texts.into_iter().map(|text| format!("`{}`", shortened(text, SHOWN))).collect();
    let shown = quoted.len().min(MAX_LISTED);
    (shown > 0).then(|| quoted[..shown].join(", ") + &gguf_types::and_more(quoted.len() - shown))
}

/// The prompt of these messages.
pub fn render(
    template: &str,
    messages: &[(&str, &str)],
    tokens: &SpecialTokens,
) -> Result<String, ChatError> {
    render_at(template, messages, tokens, Date::FIXED)
}

/// The prompt of these messages on a date.
pub fn render_at(
    template: &str,
    messages: &[(&str, &str)],
    tokens: &SpecialTokens,
    date: Date,
) -> Result<String, ChatError> {
    let conversation = Conversation::of(messages);
    let settings = Settings { tokens, generation_prompt: true, date };
    let made = render_chat(template, &Chat::of(&conversation), &settings)?;
    if conversation.is_asked_in(&made) {
        Ok(made)
    } else {
        // Templates of vision models may ignore texts that are not in a list of parts.
        render_chat(template, &Chat::of(&conversation).with_parts(), &settings)
    }
}

/// True if `other` is `prompt` with the message `new` instead of `old`.
pub fn is_copy(prompt: &str, old: &str, new: &str, other: &str) -> bool {
    let in_json = serde_json::to_string(new).unwrap_or_default();
    prompt.replace(old, new) == other || prompt.replace(old, in_json.trim_matches('"')) == other
}

/// Lines of a prompt that are sentences.
pub fn sentences(prompt: &str) -> Vec<String> {
    let is_sentence = |line: &&str| {
        let words =
            line.split_whitespace().filter(|word| word.chars().filter(|c| c.is_alphabetic()).count() > 1);
        // Lines with dates, as in templates of Llama 3, are not instructions.
        words.count() >= SENTENCE && !line.contains("Date:")
    };
    let mut lines: Vec<String> = Vec::new();
    let own =
        [SYSTEM, USER, ANSWER, NEXT].iter().fold(prompt.to_owned(), |text, own| text.replace(own, "\n"));
    for line in own.lines().map(str::trim).filter(is_sentence) {
        if !lines.iter().any(|known| known == line) {
            lines.push(line.to_owned());
        }
    }
    lines
}
