//! Chat templates: parsing, rendering and comparison.

use gguf_container::{Metadata, Value};
use gguf_runtime::chat::{ChatError, Conversation, SpecialTokens};
use gguf_tokenizer::{Reading, Tokenizer};

use super::{
    contents,
    report::{Check, Finding, Severity},
};
use crate::{
    error::Error,
    template_guard::{Budget, render_fixed},
};

/// The key of the template, and the beginning of the keys of named ones.
const TEMPLATE: &str = gguf_tokenizer::keys::CHAT_TEMPLATE;
/// Characters of a prompt in the report of a difference, and those before the difference at most.
const SHOWN: usize = 40;
const SHARED: usize = 30;
/// The key of a reranker's prompt.
const RERANK: &str = "tokenizer.chat_template.rerank";
/// The key of a decision model's prompt, which has a schema instead of messages.
const DECISION: &str = "tokenizer.chat_template.systemone";

/// All templates of a file: key and text.
fn templates(metadata: &Metadata) -> impl Iterator<Item = (&str, &Value)> {
    let is_template =
        |key: &str| key.strip_prefix(TEMPLATE).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    metadata.iter().filter(move |(key, _)| is_template(key)).map(|(key, value)| (key.as_str(), value))
}

/// Parses and renders every template of a file.
///
/// # Errors
/// A template that takes too much memory or time.
pub fn check(metadata: &Metadata) -> Result<Check, Error> {
    let mut check = Check::new("template");
    let tokens = SpecialTokens::of(metadata);
    // A wrong tokenizer is reported by the check of the tokenizer.
    let encoder = Tokenizer::from_gguf(metadata).encoder(Reading::LlamaCpp).ok();
    let (conversations, budget) = (Conversation::fixed(), Budget::default());
    let (mut n_templates, mut n_plain, mut n_rendered) = (0, 0, 0);
    for (key, value) in templates(metadata) {
        n_templates += 1;
        let Some(template) = value.as_str() else {
            check.push(Finding::error("template", format!("`{key}` is not a string")));
            continue;
        };
        if template.trim().is_empty() {
            check.push(Finding::error("template", format!("`{key}` is empty")));
            continue;
        }
        // Rerankers have a plain text with two places to fill, which no template engine reads.
        if key == RERANK && ["{query}", "{document}"].iter().all(|place| template.contains(place)) {
            n_plain += 1;
            continue;
        }
        let all_rendered = render_fixed(&budget, template, &tokens)?;
        if key == DECISION && !matches!(all_rendered.first(), Some(Err(ChatError::Syntax(_)))) {
            n_plain += 1;
            continue;
        }
        let (mut failures, mut n_without_text) = (Vec::new(), 0);
        for (conversation, rendered) in conversations.iter().zip(all_rendered) {
            match rendered {
                Ok(text) => {
                    n_rendered += 1;
                    n_without_text += usize::from(!conversation.is_asked_in(&text));
                }
                Err(error) => failures.push((conversation, error)),
            }
        }
        if n_without_text > 0 {
            let n_made = conversations.len() - failures.len();
            let message =
                format!("`{key}`: {n_without_text} of {n_made} prompts do not contain the user message");
            check.push(if n_without_text == n_made {
                Finding::error("template_without_text", message)
            } else {
                Finding::warning("template_without_text", message)
            });
        }
        let is_rendered = failures.len() < conversations.len();
        check.findings.extend(judge(key, conversations.len(), failures));
        if is_rendered {
            check.findings.extend(contents::findings(&budget, key, template, &tokens, encoder.as_ref())?);
        }
    }
    if n_templates == n_plain {
        return Ok(check.skipped("no chat template"));
    }
    check.summary =
        format!("{n_rendered} of {} prompts rendered", (n_templates - n_plain) * conversations.len());
    Ok(check)
}

/// Findings for failures of a template: rendering nothing is an error, refusing a kind of conversation may be
/// intended.
fn judge(key: &str, n: usize, failures: Vec<(&Conversation<'_>, ChatError)>) -> Vec<Finding> {
    let problem = |error: &ChatError| match error {
        ChatError::Syntax(problem) | ChatError::Refused(problem) | ChatError::Template(problem) => {
            problem.clone()
        }
        error => error.to_string(),
    };
    let is_wrong = failures.len() == n;
    let found = failures.iter().map(|(conversation, error)| {
        let message = format!("`{key}`: {}: {}", conversation.name, problem(error));
        match error {
            ChatError::Refused(_) => Finding::note("template_refuses", message),
            _ => Finding::warning("template", message),
        }
    });
    match failures.first() {
        // One finding is enough for a failure in every conversation.
        Some((_, error @ ChatError::Syntax(_))) => {
            vec![Finding::error("template", format!("`{key}` cannot be parsed: {}", problem(error)))]
        }
        Some((_, error)) if is_wrong => {
            vec![Finding::error("template", format!("`{key}` cannot be rendered: {}", problem(error)))]
        }
        _ => found.collect(),
    }
}

/// Compares the prompts of the templates of a file and of its source, template by template.
///
/// # Errors
/// As [`check`].
pub fn compare(file: &Metadata, source: &Metadata) -> Result<Check, Error> {
    let mut check = Check::new("prompts");
    let (tokens, source_tokens) = (SpecialTokens::of(file), SpecialTokens::of(source));
    let (conversations, budget) = (Conversation::fixed(), Budget::default());
    let mut n_compared = 0;
    for (key, value) in templates(source) {
        let Some(template) = value.as_str() else { continue };
        let Some(own) = file.get(key).and_then(Value::as_str) else {
            check.push(Finding::error(
                "missing_template",
                format!("`{key}` is in the source but not in the file"),
            ));
            continue;
        };
        let same = own == template;
        let mut n_different = 0;
        let theirs = render_fixed(&budget, template, &source_tokens)?;
        let rendered = render_fixed(&budget, own, &tokens)?.into_iter().zip(theirs);
        for (conversation, (ours, theirs)) in conversations.iter().zip(rendered) {
            n_compared += 1;
            let different = match (&ours, &theirs) {
                (Ok(ours), Ok(theirs)) => difference(ours, theirs, "the source"),
                (Err(_), Err(_)) => None,
                (Err(error), Ok(_)) => Some(format!("only the source can be rendered: {error}")),
                (Ok(_), Err(error)) => Some(format!("only the file can be rendered: {error}")),
            };
            if let Some(different) = different {
                n_different += 1;
                check.push(Finding::error("prompt", format!("`{key}`: {}: {different}", conversation.name)));
            }
        }
        if !same && n_different == 0 {
            let message = format!("`{key}` differs from the source, but all tested prompts are equal");
            check.push(Finding::warning("template_text", message));
        }
    }
    for (key, _) in templates(file).filter(|(key, _)| !source.contains(key)) {
        check.push(Finding::warning(
            "extra_template",
            format!("`{key}` is in the file but not in the source"),
        ));
    }
    if n_compared == 0 && check.findings.is_empty() {
        return Ok(check.skipped("neither has a chat template"));
    }
    check.summary = format!("{n_compared} prompts compared");
    Ok(check)
}

/// Problem of the chat template if it makes no prompt at all.
///
/// # Errors
/// As [`check`].
pub fn failure(metadata: &Metadata) -> Result<Option<String>, Error> {
    let Some(template) = metadata.get(TEMPLATE).and_then(Value::as_str) else { return Ok(None) };
    let conversations = Conversation::fixed();
    let rendered = render_fixed(&Budget::default(), template, &SpecialTokens::of(metadata))?;
    let failed = |(conversation, made): (_, Result<_, _>)| Some((conversation, made.err()?));
    let failures = conversations.iter().zip(rendered).filter_map(failed).collect();
    let mut found = judge(TEMPLATE, conversations.len(), failures).into_iter();
    Ok(found.find(|finding| finding.severity == Severity::Error).map(|finding| finding.message))
}

/// First difference between the prompt of the file and that of another, from the start of the special token or word that
/// contains it.
pub fn difference(ours: &str, theirs: &str, other: &str) -> Option<String> {
    if ours == theirs {
        return None;
    }
    let common: Vec<char> =
        ours.chars().zip(theirs.chars()).take_while(|(a, b)| a == b).map(|(a, _)| a).collect();
    let is_end = |c: &char| c.is_whitespace() || ">]}".contains(*c);
    let word = common.iter().rposition(is_end).map_or(0, |end| end + 1);
    let token = common[word..].iter().position(|c| "<[{".contains(*c)).unwrap_or(0);
    let at = (word + token).max(common.len().saturating_sub(SHARED));
    let around = |text: &str| text.chars().skip(at).take(SHOWN).collect::<String>();
    Some(format!("at character {at}, the file has {:?} and {other} {:?}", around(ours), around(theirs)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn excerpts_of_a_difference_begin_with_a_token_or_word() {
        for (ours, theirs, at, excerpt) in [
            ("<|im_start|>system\n", "<|im_start|>user\n", 12, "system\\n"),
            ("<|im_start|>", "<|im_end|>", 0, "<|im_start|>"),
            ("a<<SYS>>", "a<<SYT>>", 1, "<<SYS>>"),
            ("two words", "two wolves", 4, "words"),
            ("same, longer", "same", 0, "same, longer"),
        ] {
            let found = difference(ours, theirs, "it").unwrap();
            assert!(found.starts_with(&format!("at character {at}, the file has \"{excerpt}\"")), "{found}");
        }
    }
}
