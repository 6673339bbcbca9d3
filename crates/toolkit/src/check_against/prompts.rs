//! Rendered prompts.

use gguf_container::{Metadata, Value};
use gguf_runtime::chat::{Chat, ChatError, Date, Settings, SpecialTokens, render_chat};
use gguf_tokenizer::Encoder;
use serde_json::json;

use super::record::{Facts, Prompt};
use crate::{
    error::Error,
    template_guard::guarded,
    verify::{Check, Finding},
};

const TEMPLATE: &str = gguf_tokenizer::keys::CHAT_TEMPLATE;
/// Characters that are shown before and after a difference.
const BEFORE: usize = 16;
const AFTER: usize = 32;

/// Renders the conversations of a record with the template of a file, and compares the prompts.
///
/// # Errors
/// A template that takes too much memory or time.
pub fn check(metadata: &Metadata, tokenizer: &Encoder, facts: &Facts) -> Result<Check, Error> {
    let mut check = Check::new("prompts");
    let has_template = metadata.contains(TEMPLATE);
    if facts.prompts.is_empty() {
        if has_template && facts.special.is_some() {
            let message = "the file has a chat template, the original has none";
            check.push(Finding::warning("extra_template", message));
        }
        return Ok(check.skipped("the record has no prompts"));
    }
    if !has_template {
        let message = "the original has a chat template, the file has none";
        check.push(Finding::error("missing_template", message));
        return Ok(check);
    }
    let tokens = SpecialTokens::with_tokenizer(metadata, tokenizer);
    let date = facts.date.as_deref().and_then(Date::parse).unwrap_or(Date::FIXED);
    let mut n_equal = 0;
    for prompt in &facts.prompts {
        let label = if prompt.generation_prompt {
            format!("{}, with generation prompt", prompt.name)
        } else {
            prompt.name.clone()
        };
        let chat = match chat(prompt) {
            Ok(chat) => chat,
            Err(problem) => {
                check.push(Finding::warning("conversation", format!("{label}: {problem}")));
                continue;
            }
        };
        let Some(template) = template(metadata, chat.has_tools()) else {
            check.push(Finding::error("template", format!("`{TEMPLATE}` is not a string")));
            break;
        };
        let (tokens, generation_prompt) = (tokens.clone(), prompt.generation_prompt);
        let rendered = guarded(move || {
            render_chat(&template, &chat, &Settings { tokens: &tokens, generation_prompt, date })
        })?;
        match (&prompt.text, rendered) {
            (Some(expected), Ok(found)) if *expected == found => n_equal += 1,
            (Some(expected), Ok(found)) => {
                check.push(Finding::error("prompt", format!("{label}: {}", difference(expected, &found))));
            }
            (Some(_), Err(error)) => check.push(failed(&label, &error)),
            (None, Err(_)) => n_equal += 1,
            (None, Ok(_)) => {
                let refused = prompt.refused.as_deref().unwrap_or("an error");
                let message = format!("{label}: the original refuses the conversation ({refused})");
                check.push(Finding::error("template_accepts", message));
            }
        }
    }
    check.summary = format!("{n_equal} of {} prompts equal", facts.prompts.len());
    Ok(check)
}

/// Finding for an error of the renderer. A construct that it does not support is not a fault of the file.
fn failed(label: &str, error: &ChatError) -> Finding {
    let message = format!("{label}: only the original can be rendered: {error}");
    match error {
        ChatError::Template(_) | ChatError::Syntax(_) => Finding::warning("template", message),
        _ => Finding::error("template", message),
    }
}

fn chat(prompt: &Prompt) -> Result<Chat, String> {
    let mut chat = Chat::parse(&json!({"messages": prompt.messages, "tools": prompt.tools}).to_string())?;
    if let Some(variables) = &prompt.variables {
        chat = chat.with_variables(&variables.to_string())?;
    }
    Ok(chat)
}

/// The template for a chat; as in transformers, the one named `tool_use` if there are tools.
fn template(metadata: &Metadata, has_tools: bool) -> Option<String> {
    let text = |key: &str| metadata.get(key).and_then(Value::as_str).map(str::to_owned);
    let of_tools = if has_tools { text("tokenizer.chat_template.tool_use") } else { None };
    of_tools.or_else(|| text(TEMPLATE))
}

/// First difference between two texts, with context.
fn difference(expected: &str, found: &str) -> String {
    let at = expected.chars().zip(found.chars()).take_while(|(a, b)| a == b).count();
    let around = |text: &str| {
        let part = text.chars().skip(at.saturating_sub(BEFORE)).take(BEFORE.min(at) + AFTER);
        part.collect::<String>()
    };
    format!("at character {at}, expected {:?}, found {:?}", around(expected), around(found))
}

#[cfg(test)]
mod tests {
    use super::difference;

    #[test]
    fn difference_shows_context() {
        assert_eq!(
            difference("[user] Grüße\n", "[user] Grüße "),
            "at character 12, expected \"[user] Grüße\\n\", found \"[user] Grüße \""
        );
    }
}
