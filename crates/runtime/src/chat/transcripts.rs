//! Files of chats, as texts to calibrate with.

use gguf_tokenizer::{Encoder, Error};

use super::{
    date::Date,
    reading::Chat,
    rendering::render_chat,
    settings::{ChatError, Settings},
    special::SpecialTokens,
};

/// The texts of the chats of a file, and how many of them lost something.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Transcripts {
    /// A text for each chat, without the beginning of a further turn.
    pub texts: Vec<String>,
    /// Number of chats with tools, calls or reasoning that the template does not write.
    pub n_incomplete: usize,
}

impl Transcripts {
    /// A sentence about what was lost, if anything was.
    pub fn warning(&self) -> Option<String> {
        (self.n_incomplete > 0).then(|| {
            format!(
                "the chat template omits tools, tool calls or reasoning in {} of {} chats",
                self.n_incomplete,
                self.texts.len()
            )
        })
    }

    /// Tokens of each text. No special tokens are added, since the template writes them.
    ///
    /// # Errors
    /// Errors of the tokenizer.
    pub fn encode(&self, tokenizer: &Encoder) -> Result<Vec<Vec<u32>>, Error> {
        self.texts.iter().map(|text| tokenizer.encode(text, false, true)).collect()
    }
}

/// Renders a file of chats in JSON, one a line; see [`Chat::parse`] for their form. They are over: no further turn begins.
///
/// # Errors
/// The number of the line, from 1, and what is wrong with it.
pub fn transcripts(
    template: Option<&str>,
    tokens: &SpecialTokens,
    lines: &[u8],
) -> Result<Transcripts, (usize, String)> {
    let settings = Settings { tokens, generation_prompt: false, date: Date::FIXED };
    let mut made = Transcripts::default();
    for (index, line) in lines.split(|byte| *byte == b'\n').enumerate() {
        let line = line.trim_ascii();
        let line = if index == 0 { line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line) } else { line };
        if line.is_empty() {
            continue;
        }
        let wrong = |problem: String| (index + 1, problem);
        let line = std::str::from_utf8(line).map_err(|_| wrong("not UTF-8".to_owned()))?;
        let chat = Chat::parse(line).map_err(wrong)?;
        let template = template.ok_or_else(|| wrong(ChatError::Absent.to_string()))?;
        let text = render_text(template, &chat, &settings).map_err(|error| wrong(error.to_string()))?;
        made.n_incomplete += usize::from(!chat.is_complete_in(&text));
        made.texts.push(text);
    }
    Ok(made)
}

/// Renders a chat. If the template cannot take lists of text parts, which show as Python's lists then, it gets their texts joined.
fn render_text(template: &str, chat: &Chat, settings: &Settings<'_>) -> Result<String, ChatError> {
    let made = render_chat(template, chat, settings);
    let Some(joined) = chat.with_joined_parts() else { return made };
    match made {
        Ok(text) if chat.parts_are_in(&text) => Ok(text),
        _ => render_chat(template, &joined, settings),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEMPLATE: &str = "{% for m in messages %}{{ m.role }}: {{ m.content or '' }}\n{% endfor %}\
                            {% if add_generation_prompt %}assistant:{% endif %}";

    fn read(lines: &str) -> Result<Transcripts, (usize, String)> {
        transcripts(Some(TEMPLATE), &SpecialTokens::default(), lines.as_bytes())
    }

    #[test]
    fn all_chat_formats_are_read() {
        let expected = "user: Hi\nassistant: Hello\n";
        for line in [
            r#"[{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]"#,
            r#"{"messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}, {"role": "assistant", "content": "Hello"}]}"#,
            r#"{"conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Hello"}]}"#,
        ] {
            let made = read(line).unwrap();
            assert_eq!(made, Transcripts { texts: vec![expected.to_owned()], n_incomplete: 0 }, "{line}");
        }
    }

    #[test]
    fn lost_tool_calls_and_reasoning_are_counted() {
        let call = r#"{"messages": [{"role": "user", "content": "Rain?"}, {"role": "assistant", "content": null, "tool_calls": [{"type": "function", "function": {"name": "sky", "arguments": "{}"}}]}]}"#;
        let thought = r#"{"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello", "reasoning": "Greet."}]}"#;
        let made =
            read(&format!("{call}\n\n{thought}\n[{{\"role\": \"user\", \"content\": \"Hi\"}}]")).unwrap();
        assert_eq!(made.texts[0], "user: Rain?\nassistant: \n");
        assert_eq!((made.texts.len(), made.n_incomplete), (3, 2));
        assert!(made.warning().is_some());
        let template = "{% for m in messages %}{{ m.tool_calls[0].function.name if m.tool_calls }}{{ \
            m.thinking }}{% endfor %}";
        let made =
            transcripts(Some(template), &SpecialTokens::default(), format!("{call}\n{thought}").as_bytes())
                .unwrap();
        assert_eq!(made, Transcripts { texts: vec!["sky".to_owned(), "Greet.".to_owned()], n_incomplete: 0 });
    }

    #[test]
    fn lines_without_a_chat_are_named() {
        for line in [
            "{}",
            "[]",
            r#"{"text": "Hi"}"#,
            r#"[{"role": "user"}]"#,
            r#"[{"role": 1, "content": "x"}]"#,
            "x",
        ] {
            assert_eq!(read(&format!("\n{line}")).unwrap_err().0, 2, "{line}");
        }
    }
}
