//! Texts in the source of a template.

use super::{
    named,
    settings::ChatError,
    source::raw,
    tokens::{Token, tokens},
};

/// Texts between the tags of a template and strings inside its tags, in their order. Comments are left out.
///
/// # Errors
/// [`ChatError::Named`], [`ChatError::Syntax`].
///
/// # Examples
/// ```
/// use gguf_runtime::chat::literals;
/// let found = literals("<s>{# no #}{% if x == 'yes' %}Hi{% endif %}").unwrap();
/// assert_eq!(found, ["<s>", "yes", "Hi"]);
/// ```
pub fn literals(template: &str) -> Result<Vec<String>, ChatError> {
    let template = named::source(template)?;
    let (mut found, mut rest) = (Vec::new(), &template[..]);
    let mut text = String::new();
    while let Some(at) = rest.find('{') {
        text += &rest[..at];
        rest = &rest[at..];
        let (strings, after) = if let Some(body) = rest.strip_prefix("{#") {
            let len = body.find("#}").ok_or_else(|| ChatError::Syntax("missing end of a comment".into()))?;
            (Vec::new(), &body[len + 2..])
        } else if rest.starts_with("{{") || rest.starts_with("{%") {
            let end = if rest.starts_with("{{") { "}}" } else { "%}" };
            let body = rest[2..].strip_prefix(['-', '+']).unwrap_or(&rest[2..]);
            let (inside, _, len) = tokens(body, end).map_err(ChatError::Syntax)?;
            match end == "%}" && inside == [Token::Name("raw".to_owned())] {
                true => {
                    let (inner, after) = raw(&body[len..]).map_err(ChatError::Syntax)?;
                    (vec![inner.to_owned()], after)
                }
                false => {
                    let string = |token| if let Token::Text(string) = token { Some(string) } else { None };
                    (inside.into_iter().filter_map(string).collect(), &body[len..])
                }
            }
        } else {
            text.push('{');
            rest = &rest[1..];
            continue;
        };
        found.push(std::mem::take(&mut text));
        found.extend(strings);
        rest = after;
    }
    text += rest;
    found.push(text);
    found.retain(|text| !text.is_empty());
    Ok(found)
}
