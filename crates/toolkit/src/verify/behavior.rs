//! Behavior of a chat template that depends on more than the texts of a chat: on the date, on the number and the length of
//! messages, on the presence of a system message.

use std::collections::BTreeSet;

use gguf_runtime::chat::{Date, SpecialTokens};

use super::{
    report::Finding,
    trials::{ANSWER, NEXT, SHOWN, SYSTEM, USER, is_copy, list, render, render_at, sentences},
};
use crate::text::shortened;

/// Dates on which a prompt is made, apart from [`Date::FIXED`].
const DATES: [&str; 6] = ["2024-02-29", "2025-07-04", "2026-12-31", "2027-03-15", "2030-10-06", "2041-05-01"];
/// Names that stand in dates.
const DATE_WORDS: [&str; 19] = [
    "january",
    "february",
    "march",
    "april",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
    "sunday",
    "monday",
    "tuesday",
    "wednesday",
    "thursday",
    "friday",
    "saturday",
    "may",
];
/// Turns of a short chat and of a long one.
const TURNS: [usize; 2] = [6, 40];
/// Messages at both ends of a chat that templates treat specially.
const EDGE: usize = 4;
/// Repetitions of a word in a long message.
const REPETITIONS: usize = 4000;
/// An answer with most of what answers contain.
const RICH_ANSWER: &str =
    "See https://example.com/x?a=1&b=2, 10 EUR (or $11).\n\n1. **Bold** and `code`\n2. {\"key\": [1, 2]}";

/// Facts about a template.
#[derive(Debug, Default)]
pub struct Behavior {
    /// True if the date is part of a prompt.
    has_date: bool,
    /// True if the date changes other text, too.
    is_timed: bool,
    /// Number of the first message from which a long chat is treated in another way than a short one.
    changed_from: Option<usize>,
    /// True if a long message is changed.
    changes_long: bool,
    /// True if answers are changed or left out.
    changes_answers: bool,
    /// Sentences that are added to a chat with an answer only.
    with_answers: Vec<String>,
    /// True if the prompt lacks the system message.
    drops_system: bool,
    /// Sentences of the default system prompt.
    default_system: Vec<String>,
}

/// Sentences that a template adds only if a chat has no system message.
pub fn default_system(template: &str, tokens: &SpecialTokens) -> Vec<String> {
    let render = |messages: &[(&str, &str)]| render(template, messages, tokens).ok();
    let (Some(alone), Some(both)) =
        (render(&[("user", USER)]), render(&[("system", SYSTEM), ("user", USER)]))
    else {
        return Vec::new();
    };
    let known = sentences(&both);
    let end = both.split_once(SYSTEM).and_then(|(_, rest)| rest.lines().next()).unwrap_or_default();
    let added = sentences(&alone).into_iter().filter(|line| !known.contains(line));
    added.map(|line| line.strip_suffix(end).unwrap_or(&line).to_owned()).collect()
}

impl Behavior {
    /// Renders a template with chats of several kinds.
    pub fn of(template: &str, tokens: &SpecialTokens) -> Behavior {
        let render = |messages: &[(&str, &str)]| render(template, messages, tokens).ok();
        let mut found = Behavior { default_system: default_system(template, tokens), ..Behavior::default() };
        let both = render(&[("system", SYSTEM), ("user", USER)]);
        found.drops_system = both.as_ref().is_some_and(|prompt| !prompt.contains(SYSTEM));
        if template.contains("strftime_now") {
            found.look_at_dates(template, tokens);
        }
        let Some(alone) = render(&[("user", USER)]) else { return found };
        let long = [USER; REPETITIONS].join(" ");
        let with_long = render(&[("user", &long)]);
        found.changes_long = with_long.is_none_or(|prompt| !is_copy(&alone, USER, &long, &prompt));
        found.changed_from = changed_from(&render);
        let Some(chat) = render(&[("user", USER), ("assistant", ANSWER), ("user", NEXT)]) else {
            return found;
        };
        let rich = render(&[("user", USER), ("assistant", RICH_ANSWER), ("user", NEXT)]);
        found.changes_answers =
            !chat.contains(ANSWER) || rich.is_none_or(|rich| !is_copy(&chat, ANSWER, RICH_ANSWER, &rich));
        let known: BTreeSet<String> =
            [Some(alone), both].into_iter().flatten().flat_map(|prompt| sentences(&prompt)).collect();
        found.with_answers = sentences(&chat).into_iter().filter(|line| !known.contains(line)).collect();
        found
    }

    fn look_at_dates(&mut self, template: &str, tokens: &SpecialTokens) {
        for messages in [&[("user", USER)][..], &[("system", SYSTEM), ("user", USER)]] {
            let on = |date: Date| render_at(template, messages, tokens, date).ok();
            let first = on(Date::FIXED);
            for date in DATES.into_iter().filter_map(Date::parse) {
                let other = on(date);
                self.has_date |= other != first;
                self.is_timed |= other.as_deref().map(undated) != first.as_deref().map(undated);
            }
        }
    }

    /// Findings about the template `key`.
    pub fn findings(&self, key: &str) -> Vec<Finding> {
        let mut found = Vec::new();
        let mut warn = |code, message: &str| found.push(Finding::warning(code, format!("`{key}` {message}")));
        if self.is_timed {
            warn("template_date", "renders other text depending on the date");
        }
        if let Some(number) = self.changed_from {
            warn("template_length", &format!("treats long chats differently, from message {number}"));
        }
        if self.changes_long {
            warn("template_length", "changes long messages");
        }
        if self.changes_answers {
            warn("template_answer", "changes or omits answers of the model in the chat");
        }
        if let Some(listed) = list(self.with_answers.iter().map(String::as_str)) {
            warn("template_answer", &format!("adds text to chats with answers: {listed}"));
        }
        if self.drops_system {
            warn("template_system", "ignores system messages");
        }
        if self.has_date && !self.is_timed {
            found.push(Finding::note("template_date", format!("`{key}` adds the date to the prompt")));
        }
        if !self.default_system.is_empty() {
            let text = shortened(&self.default_system.join(" "), SHOWN);
            let message = format!("`{key}` adds a system prompt if the chat has none: `{text}`");
            found.push(Finding::note("default_system", message));
        }
        found
    }
}

/// The first message from which a long chat is rendered in another way than a short one.
fn changed_from(render: &impl Fn(&[(&str, &str)]) -> Option<String>) -> Option<usize> {
    let between = |n_turns: usize| {
        let texts: Vec<String> = (0..2 * n_turns - 1).map(|number| format!("Qvrz{number}q")).collect();
        let role = |number: usize| if number.is_multiple_of(2) { "user" } else { "assistant" };
        let messages: Vec<(&str, &str)> =
            texts.iter().enumerate().map(|(number, text)| (role(number), text.as_str())).collect();
        let prompt = render(&messages)?;
        Some(parts_between(&prompt, &texts))
    };
    let short = between(TURNS[0])?.ok()?;
    let long = match between(TURNS[1]) {
        // Refused.
        None => return Some(short.len()),
        Some(Err(missing)) => return Some(missing + 1),
        Some(Ok(parts)) => parts,
    };
    let expected = |at: usize| match long.len() - at {
        left if left <= EDGE => &short[short.len() - left],
        _ if at < EDGE => &short[at],
        _ => &short[EDGE + at % 2],
    };
    (0..long.len()).find(|at| long[*at] != *expected(*at)).map(|at| at + 1)
}

/// The texts around messages, without digits, which count turns. The error is the first message that is missing.
fn parts_between(prompt: &str, texts: &[String]) -> Result<Vec<String>, usize> {
    let mut rest = prompt;
    let mut parts = Vec::new();
    for (number, text) in texts.iter().enumerate() {
        let (part, after) = rest.split_once(text.as_str()).ok_or(number)?;
        parts.push(part);
        rest = after;
    }
    parts.push(rest);
    Ok(parts.into_iter().map(|part| part.replace(|c: char| c.is_ascii_digit(), "")).collect())
}

/// A prompt without digits, blanks and words of dates.
fn undated(prompt: &str) -> String {
    let mut text = prompt.to_lowercase();
    for word in DATE_WORDS {
        text = text.replace(word, "").replace(&format!(" {} ", &word[..3]), "");
    }
    text.replace(|c: char| c.is_ascii_digit() || c.is_whitespace(), "")
}
