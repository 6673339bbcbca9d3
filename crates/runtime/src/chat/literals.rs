//! Texts in the source of a template.

use super::{
    named,
    settings::ChatError,
    source::{Part, parts},
    tokens::Token,
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
    let mut found = Vec::new();
    for part in parts(&template).map_err(ChatError::Syntax)? {
        match part {
            Part::Text(text) | Part::Raw { text, .. } => found.push(text.to_owned()),
            Part::Comment(_) => {}
            Part::Tag { tokens, .. } => {
                let string = |token| if let Token::Text(string) = token { Some(string) } else { None };
                found.extend(tokens.into_iter().filter_map(string));
            }
        }
    }
    found.retain(|text| !text.is_empty());
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raw_text_ends_before_its_tag() {
        let found = literals("{a{% raw %}{{ 'b' }}{%- endraw -%}c{# d #}e{{ 'f' }}").unwrap();
        assert_eq!(found, ["{a", "{{ 'b' }}", "c", "e", "f"]);
        assert!(matches!(literals("{% raw %}a"), Err(ChatError::Syntax(_))));
    }
}
