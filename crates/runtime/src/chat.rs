//! Chat templates, applied as transformers applies them.
//!
//! Source: `apply_chat_template` of transformers 5.23: a Jinja template over `messages`, with blocks
//! trimmed, loop controls, `raise_exception`, and the methods of Python's strings and dictionaries.

mod blocks;
mod conversation;
mod date;
mod errors;
mod expression;
mod filters;
mod lazy;
mod literals;
mod methods;
mod named;
mod numbers;
mod operators;
mod python;
mod python_json;
mod reading;
mod rendering;
mod settings;
mod source;
mod special;
mod tokens;
mod transcripts;

pub use conversation::{Conversation, Tool, ToolCall, Turn};
pub use date::Date;
pub use literals::literals;
pub use reading::Chat;
pub use rendering::{render_chat, render_with_system, stop_with};
pub use settings::{ChatError, Settings, SystemMessage};
pub use special::SpecialTokens;
pub use transcripts::{Transcripts, is_chats, transcripts};

/// A message: who says it, and what.
pub type Message<'a> = (&'a str, &'a str);

/// The text that a model is to continue: messages in the form that its template gives them, and the
/// beginning of the model's own turn. `bos` and `eos` are their texts.
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
    render(template, &Conversation::of(messages), bos, eos)
}

/// The text that a template makes of a conversation, with the beginning of the model's own turn, on [`Date::FIXED`].
///
/// # Errors
/// [`ChatError::Syntax`], [`ChatError::Refused`], [`ChatError::Template`]; the last also for a template that does not come to an
/// end.
pub fn render(
    template: &str,
    conversation: &Conversation<'_>,
    bos: &str,
    eos: &str,
) -> Result<String, ChatError> {
    let tokens = SpecialTokens::new(bos, eos);
    let settings = Settings { tokens: &tokens, generation_prompt: true, date: Date::FIXED };
    render_chat(template, &Chat::of(conversation), &settings)
}

/// The text of a conversation that is over, as models are trained on: without the beginning of a further turn.
pub fn transcript(
    template: &str,
    conversation: &Conversation<'_>,
    bos: &str,
    eos: &str,
) -> Result<String, ChatError> {
    let tokens = SpecialTokens::new(bos, eos);
    let settings = Settings { tokens: &tokens, generation_prompt: false, date: Date::FIXED };
    render_chat(template, &Chat::of(conversation), &settings)
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
        assert!(matches!(&refused, ChatError::Refused(_)));
        assert_eq!(refused.to_string(), "`tokenizer.chat_template`: Only users speak");
        assert!(matches!(prompt(None, &[], "", ""), Err(ChatError::Absent)));
        assert!(matches!(prompt(Some("{% if %}"), &[], "", ""), Err(ChatError::Syntax(_))));
        assert!(matches!(prompt(Some("{{ 1 + none }}"), &[], "", ""), Err(ChatError::Template(_))));
    }

    #[test]
    fn endless_template_is_stopped() {
        let endless = "{% for i in range(9999) %}{% for i in range(9999) %}{% endfor %}{% endfor %}";
        assert!(matches!(prompt(Some(endless), &[], "", ""), Err(ChatError::Template(_))));
    }

    #[test]
    fn nested_lists_are_safe() {
        // 64 * 3500 lists in about as many steps.
        let (open, close) = ("[".repeat(64), "]".repeat(64));
        let nested = format!(
            "{{% set n = namespace(x=1) %}}{{% for i in range(3500) %}}{{% set n.x = {open}n.x{close} %}}{{% endfor %}}"
        );
        assert_eq!(prompt(Some(&nested), &[], "", "").unwrap(), "");
        let printed = prompt(Some(&format!("{nested}{{{{ n.x }}}}")), &[], "", "").unwrap_err();
        assert_eq!(printed.to_string(), "`tokenizer.chat_template`: lists nested deeper than 990");
        // Python stops as well, at a depth of a thousand.
        let as_json = prompt(Some(&format!("{nested}{{{{ n.x | tojson }}}}")), &[], "", "").unwrap_err();
        assert_eq!(as_json.to_string(), "`tokenizer.chat_template`: lists nested deeper than 990");
    }

    #[test]
    fn template_engine_panic_is_caught() {
        // Whatever a later version of the engine produces.
        let made = prompt(Some("{{ ''[::-1] }}"), &[], "", "");
        assert!(
            matches!(&made, Ok(text) if text.is_empty()) || matches!(&made, Err(ChatError::Template(_))),
            "{made:?}"
        );
    }

    #[test]
    fn assistant_replies_can_be_marked() {
        let template =
            "{% for m in messages %}{%- generation -%} {{ m.content }} {%- endgeneration %}!{% endfor %}";
        assert_eq!(prompt(Some(template), &[("user", "a")], "", "").unwrap(), "a!");
        // Found by mutation: the end of a block inside of its begin.
        assert!(matches!(prompt(Some("{%}generation%}"), &[], "", ""), Err(ChatError::Syntax(_))));
    }

    #[test]
    fn tools_and_calls_reach_the_template() {
        let conversations = Conversation::fixed();
        let with_tools = conversations.last().unwrap();
        let template = "{% for tool in tools %}{{ tool | tojson }}{% endfor %}{% for m in messages if m.tool_calls %}\
                        {{ m.tool_calls[0].function.arguments | tojson(ensure_ascii=False) }}{% endfor %}";
        let made = render(template, with_tools, "", "").unwrap();
        // The spelling of `json.dumps` of Python.
        assert!(
            made.starts_with(r#"{"type": "function", "function": {"name": "get_weather", "description": "#),
            "{made}"
        );
        assert!(made.ends_with(r#"{"city": "Zürich"}"#), "{made}");
    }
}
