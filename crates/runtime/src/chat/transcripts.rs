//! Files of chats, as texts to calibrate with.

use std::collections::BTreeSet;

use gguf_tokenizer::{Encoder, Error};
use minijinja::value::{Value, ValueKind};

use super::{
    date::Date,
    reading::Chat,
    rendering::render_with_system,
    settings::{ChatError, Settings, SystemMessage},
    special::SpecialTokens,
};

/// Keys by which a line of JSON is recognized as a chat or a text, also of forms that are refused by name.
const KEYS: &[&str] = &["messages", "conversations", "text", "prompt", "instruction", "question"];

/// The texts of the chats of a file, and the number that lost something.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Transcripts {
    /// A text for each chat, without the beginning of a further turn, or a text that is not a chat.
    pub texts: Vec<String>,
    /// Places of the texts that are not chats.
    pub plain: BTreeSet<usize>,
    /// Number of chats with tools, calls or reasoning that the template does not write.
    pub n_incomplete: usize,
    /// Number of chats with a system message that the template leaves out.
    pub n_without_system: usize,
    /// Number of chats whose template refuses system messages, so that the next message begins with it.
    pub n_moved_system: usize,
}

impl Transcripts {
    /// Sentences about lost parts.
    pub fn warnings(&self) -> Vec<String> {
        let n_chats = self.texts.len() - self.plain.len();
        let of = |n: usize, lost: &str| {
            (n > 0).then(|| format!("the chat template omits {lost} in {n} of {n_chats} chats"))
        };
        let lost = of(self.n_incomplete, "tools, tool calls or reasoning");
        lost.into_iter().chain(of(self.n_without_system, "the system message")).collect()
    }

    /// A sentence about chats that were changed without a loss.
    pub fn note(&self) -> Option<String> {
        (self.n_moved_system > 0).then(|| {
            format!(
                "the chat template refuses system messages; in {} of {} chats, the next message begins with it",
                self.n_moved_system,
                self.texts.len() - self.plain.len()
            )
        })
    }

    /// Tokens of each text. The template writes the special tokens of chats; other texts get those of the tokenizer.
    ///
    /// # Errors
    /// Errors of the tokenizer.
    pub fn encode(&self, tokenizer: &Encoder) -> Result<Vec<Vec<u32>>, Error> {
        let texts = self.texts.iter().enumerate();
        texts
            .map(|(index, text)| {
                let is_plain = self.plain.contains(&index);
                tokenizer.encode(text, is_plain, !is_plain)
            })
            .collect()
    }
}

/// True for the contents of a file of chats or texts in JSON: one document, or one in each line.
pub fn is_chats(bytes: &[u8]) -> bool {
    let has_key =
        |value: &Value| KEYS.iter().any(|key| value.get_attr(key).is_ok_and(|item| !item.is_undefined()));
    let is_document = |value: &Value| match value.kind() {
        ValueKind::Map => has_key(value),
        ValueKind::Seq => value.try_iter().is_ok_and(|mut items| {
            items
                .next()
                .is_some_and(|first| is_message(&first) || has_key(&first) || first.kind() == ValueKind::Seq)
        }),
        _ => false,
    };
    let bytes = without_mark(bytes).trim_ascii();
    let first_line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    // A text that begins otherwise is not parsed.
    matches!(bytes.first(), Some(b'{' | b'['))
        && [first_line, bytes]
            .iter()
            .any(|bytes| serde_json::from_slice(bytes).is_ok_and(|value| is_document(&value)))
}

/// The documents of a file in JSON, with the number of their line from 1: the chats of a list, the only document, or that of each
/// line.
fn documents(bytes: &[u8]) -> Result<Vec<(usize, Value)>, (usize, String)> {
    let bytes = without_mark(bytes);
    if let Ok(document) = serde_json::from_slice::<Value>(bytes) {
        let n_blank = bytes.len() - bytes.trim_ascii_start().len();
        let first = 1 + bytes[..n_blank].iter().filter(|byte| **byte == b'\n').count();
        let items = document.try_iter().ok().filter(|_| document.kind() == ValueKind::Seq);
        let chats: Vec<(usize, Value)> = items.into_iter().flatten().map(|item| (first, item)).collect();
        let is_one_chat = chats.is_empty() || chats.iter().all(|(_, item)| is_message(item));
        return Ok(if is_one_chat { vec![(first, document)] } else { chats });
    }
    let lines = (1..).zip(bytes.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii));
    let document = |(number, line): (usize, &[u8])| {
        let wrong = |problem: String| (number, problem);
        let line = std::str::from_utf8(line).map_err(|_| wrong("not UTF-8".to_owned()))?;
        serde_json::from_str(line).map(|value| (number, value)).map_err(|error| wrong(error.to_string()))
    };
    lines.filter(|(_, line)| !line.is_empty()).map(document).collect()
}

/// True for a message, which is a map with a role.
fn is_message(value: &Value) -> bool {
    let has = |name: &str| value.get_attr(name).is_ok_and(|item| !item.is_undefined());
    value.kind() == ValueKind::Map && (has("role") || has("from"))
}

fn without_mark(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes)
}

/// Renders a file of chats in JSON (see [`Chat::parse`] for their form): a list of chats, or one chat in each line. They are over: no
/// further turn begins. An object with `text` is a text.
///
/// # Errors
/// The number of the line, from 1, and what is wrong with it.
pub fn transcripts(
    template: Option<&str>,
    tokens: &SpecialTokens,
    bytes: &[u8],
) -> Result<Transcripts, (usize, String)> {
    let settings = Settings { tokens, generation_prompt: false, date: Date::FIXED };
    let mut made = Transcripts::default();
    let documents = documents(bytes)?;
    let are_in_one_line = documents.len() > 1 && documents.iter().all(|(line, _)| *line == documents[0].0);
    for (index, (line, document)) in documents.iter().enumerate() {
        let wrong = |problem: String| {
            if are_in_one_line { (*line, format!("chat {}: {problem}", index + 1)) } else { (*line, problem) }
        };
        let chat = match (Chat::of_value(document), document.get_attr("text")) {
            (Ok(chat), _) => chat,
            (Err(_), Ok(text)) if text.as_str().is_some() => {
                made.plain.insert(made.texts.len());
                made.texts.extend(text.as_str().map(str::to_owned));
                continue;
            }
            (Err(problem), _) => return Err(wrong(problem)),
        };
        let template = template.ok_or_else(|| wrong(ChatError::Absent.to_string()))?;
        let (text, system) =
            render_text(template, &chat, &settings).map_err(|error| wrong(error.to_string()))?;
        made.n_incomplete += usize::from(!chat.is_complete_in(&text));
        made.n_without_system += usize::from(system == SystemMessage::LeftOut);
        made.n_moved_system += usize::from(system == SystemMessage::InNext);
        made.texts.push(text);
    }
    Ok(made)
}

/// Renders a chat. If the template cannot take lists of text parts, which show as Python's lists then, it gets their texts joined.
fn render_text(
    template: &str,
    chat: &Chat,
    settings: &Settings<'_>,
) -> Result<(String, SystemMessage), ChatError> {
    let made = render_with_system(template, chat, settings);
    let Some(joined) = chat.with_joined_parts() else { return made };
    match made {
        Ok((text, system)) if chat.parts_are_in(&text) => Ok((text, system)),
        _ => render_with_system(template, &joined, settings),
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
            assert_eq!(
                made,
                Transcripts { texts: vec![expected.to_owned()], ..Transcripts::default() },
                "{line}"
            );
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
        assert_eq!(made.warnings().len(), 1);
        let template = "{% for m in messages %}{{ m.tool_calls[0].function.name if m.tool_calls }}{{ \
            m.thinking }}{% endfor %}";
        let made =
            transcripts(Some(template), &SpecialTokens::default(), format!("{call}\n{thought}").as_bytes())
                .unwrap();
        assert_eq!((made.texts, made.n_incomplete), (vec!["sky".to_owned(), "Greet.".to_owned()], 0));
    }

    #[test]
    fn lines_without_a_chat_are_named() {
        for line in
            ["{}", "[]", r#"{"text": 1}"#, r#"[{"role": "user"}]"#, r#"[{"role": 1, "content": "x"}]"#, "x"]
        {
            assert_eq!(read(&format!("\n{line}")).unwrap_err().0, 2, "{line}");
        }
    }
}
