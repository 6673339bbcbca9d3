//! Chat templates, applied as transformers applies them.
//!
//! Source: `apply_chat_template` of transformers 5.23: a Jinja template over `messages`, with blocks
//! trimmed, loop controls, `raise_exception`, and the methods of Python's strings and dictionaries.

use minijinja::{Environment, ErrorKind, context, value::Value};

/// Why a template cannot be applied.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChatError {
    /// The file has none.
    #[error("`tokenizer.chat_template` is absent")]
    Absent,
    /// It does not parse, or refuses these messages.
    #[error("`tokenizer.chat_template`: {0}")]
    Template(String),
}

/// A message: who says it, and what.
pub type Message<'a> = (&'a str, &'a str);

/// The text that a model is to continue: messages in the form that its template gives them, and the
/// beginning of the model's own turn. `bos` and `eos` are the texts of these tokens.
///
/// # Errors
/// [`ChatError`] for a file without a template, and for one that fails.
pub fn prompt(
    template: Option<&str>,
    messages: &[Message<'_>],
    bos: &str,
    eos: &str,
) -> Result<String, ChatError> {
    let template = template.ok_or(ChatError::Absent)?;
    let mut environment = Environment::new();
    // As transformers sets up Jinja: `trim_blocks` and `lstrip_blocks`, without which every template prints other blanks.
    environment.set_trim_blocks(true);
    environment.set_lstrip_blocks(true);
    environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
    environment.add_function("raise_exception", |text: String| -> Result<Value, minijinja::Error> {
        Err(minijinja::Error::new(ErrorKind::InvalidOperation, text))
    });
    // A fixed day, so that the same prompt gives the same text.
    environment.add_function("strftime_now", |_format: String| "01 Jan 2026");
    // The text of `raise_exception` is the detail of its error; other errors are described as a whole.
    let problem = |error: minijinja::Error| {
        let detail = error.detail().map_or_else(|| error.to_string(), str::to_owned);
        ChatError::Template(detail)
    };
    let messages: Vec<Value> =
        messages.iter().map(|(role, content)| context! { role => role, content => content }).collect();
    let values = context! {
        messages => messages,
        add_generation_prompt => true,
        bos_token => bos,
        eos_token => eos,
    };
    environment.render_str(template, values).map_err(problem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_speak_jinja_and_python() {
        let template = "{{- bos_token }}{% for message in messages %}\n    {%- if message.role == 'user' %}\
                        <|im_start|>{{ message['role'] }}\n{{ message['content'].strip() }}<|im_end|>\n\
                        {% else %}{{ raise_exception('Only users speak') }}{% endif %}\n{% endfor %}\
                        {% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
        let made = prompt(Some(template), &[("user", " Hello ")], "<s>", "</s>").unwrap();
        assert_eq!(made, "<s><|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n");
        let refused = prompt(Some(template), &[("system", "x")], "", "").unwrap_err();
        assert_eq!(refused.to_string(), "`tokenizer.chat_template`: Only users speak");
        assert!(matches!(prompt(None, &[], "", ""), Err(ChatError::Absent)));
        assert!(prompt(Some("{% if %}"), &[], "", "").is_err());
    }
}
