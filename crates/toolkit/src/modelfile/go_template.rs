//! Chat template of a model as a Go template for the `Modelfile` of Ollama.
//!
//! Ollama takes a known template instead of one that differs from it by fewer than 100 characters, unless the `Modelfile` has
//! `TEMPLATE` (`OllamaTemplate` of `verify`). A template can be translated if it writes each message between fixed texts of its role. This is found out by rendering
//! chats and checked on a longer one.
//!
//! Source: `template.Named` in `template/template.go` of ollama/ollama@fb3076099.

/// Renders turns of (role, content), with the start of an answer or without it; `None` if the template refuses them.
type Render<'a> = dyn Fn(&[(&str, &str)], bool) -> Option<String> + 'a;

/// Contents of messages that no template has as its own text.
const SYSTEM: &str = "Qvrzsystem";
const USER: &str = "Qvrzuser";
const ANSWER: &str = "Qvrzanswer";
const NEXT: &str = "Qvrznext";

/// Texts before and after the contents of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Frame {
    role: &'static str,
    before: String,
    after: String,
}

/// A template that writes messages in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GoTemplate {
    frames: Vec<Frame>,
    /// Text before a chat without a system message.
    default_system: String,
    /// Beginning of the model's turn.
    answer: String,
}

impl GoTemplate {
    /// Finds the texts around messages. `render` makes the prompt of messages by role and contents, with the beginning of the model's
    /// turn if the flag is set; `added_bos` is the text of the BOS token if Ollama adds it, else empty.
    pub fn find(render: &Render<'_>, added_bos: &str) -> Option<GoTemplate> {
        let prompt = |messages: &[(&str, &str)], asks| {
            let made = render(messages, asks)?;
            Some(made.strip_prefix(added_bos).unwrap_or(&made).to_owned())
        };
        let asked = prompt(&[("user", USER)], true)?;
        let answer = asked.strip_prefix(&prompt(&[("user", USER)], false)?)?.to_owned();
        let (before_chat, rest) = asked.split_once(USER)?;
        let after_user = rest.strip_suffix(&answer)?;
        // before USER after, before ANSWER after, before NEXT after, answer.
        let turns = prompt(&[("user", USER), ("assistant", ANSWER), ("user", NEXT)], true)?;
        let turns = turns.strip_prefix(before_chat)?.strip_prefix(USER)?.strip_prefix(after_user)?;
        let (before_answer, rest) = turns.split_once(ANSWER)?;
        let (between, _) = rest.split_once(NEXT)?;
        let (before_user, after_answer) = match between.strip_suffix(before_chat) {
            Some(after_answer) => (before_chat, after_answer),
            // A default system prompt. Answers end like questions, or the check below fails.
            None => (between.strip_prefix(after_user)?, after_user),
        };
        let default_system = before_chat.strip_suffix(before_user)?.to_owned();
        let frame = |role, before: &str, after: &str| {
            let (before, after) = (before.to_owned(), after.to_owned());
            Frame { role, before, after }
        };
        let mut frames =
            vec![frame("user", before_user, after_user), frame("assistant", before_answer, after_answer)];
        let with_system = prompt(&[("system", SYSTEM), ("user", USER)], true);
        if let Some((before, rest)) = with_system.as_ref().and_then(|made| made.split_once(SYSTEM)) {
            let after = rest.split_once(USER)?.0.strip_suffix(before_user)?;
            frames.push(frame("system", before, after));
        }
        let found = GoTemplate { frames, default_system, answer };
        let longer =
            [("user", NEXT), ("assistant", USER), ("user", ANSWER), ("assistant", NEXT), ("user", USER)];
        let all = [&[("system", SYSTEM)][..], &longer].concat();
        let has_system = found.frames.len() > 2;
        let is_right = |messages: &[(&str, &str)]| Some(found.render(messages)? == prompt(messages, true)?);
        // `.System` decides about the default, so system messages must have their place.
        let is_complete = has_system || found.default_system.is_empty();
        (is_complete && is_right(&longer)? && (!has_system || is_right(&all)?)).then_some(found)
    }

    fn render(&self, messages: &[(&str, &str)]) -> Option<String> {
        let has_system = messages.iter().any(|(role, _)| *role == "system");
        let mut text = if has_system { String::new() } else { self.default_system.clone() };
        for (role, contents) in messages {
            let frame = self.frames.iter().find(|frame| frame.role == *role)?;
            text.extend([frame.before.as_str(), contents, &frame.after]);
        }
        Some(text + &self.answer)
    }

    /// Lines of the `Modelfile`; `None` if a text cannot be written there.
    pub fn lines(&self) -> Option<String> {
        let mut text = "TEMPLATE \"\"\"".to_owned();
        if !self.default_system.is_empty() {
            text += &format!("{{{{ if not .System }}}}{}{{{{ end }}}}", self.default_system);
        }
        text += "{{ range .Messages }}";
        for (index, Frame { role, before, after }) in self.frames.iter().enumerate() {
            let word = if index == 0 { "if" } else { "else if" };
            text += &format!("{{{{ {word} eq .Role \"{role}\" }}}}{before}{{{{ .Content }}}}{after}");
        }
        text += &format!("{{{{ end }}}}{{{{ end }}}}{}\"\"\"\n", self.answer);
        let stop = self.frames.iter().find(|frame| frame.role == "assistant")?.after.trim();
        let texts = [&self.answer, &self.default_system];
        let own = || self.frames.iter().flat_map(|frame| [&frame.before, &frame.after]).chain(texts);
        if own().any(|text| text.contains("{{") || text.contains('"')) {
            return None;
        }
        if !stop.is_empty() && !stop.contains('\n') {
            text += &format!("PARAMETER stop \"{stop}\"\n");
        }
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use gguf_runtime::chat::{Conversation, render, transcript};

    use super::*;

    fn lines(template: &str) -> Option<String> {
        let made = |messages: &[(&str, &str)], asks: bool| {
            let chat = Conversation::of(messages);
            let made = if asks {
                render(template, &chat, "<s>", "</s>")
            } else {
                transcript(template, &chat, "<s>", "</s>")
            };
            made.ok()
        };
        GoTemplate::find(&made, "<s>")?.lines()
    }

    #[test]
    fn templates_of_frames_are_translated() {
        let zephyr = "{{ bos_token }}{% for m in messages %}{{ '<|' + m.role + '|>\n' + m.content + eos_token + '\n' }}{% endfor %}\
            {% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %}";
        let expected = "TEMPLATE \"\"\"{{ range .Messages }}{{ if eq .Role \"user\" }}<|user|>\n{{ .Content }}</s>\n\
            {{ else if eq .Role \"assistant\" }}<|assistant|>\n{{ .Content }}</s>\n\
            {{ else if eq .Role \"system\" }}<|system|>\n{{ .Content }}</s>\n{{ end }}{{ end }}<|assistant|>\n\"\"\"\n\
            PARAMETER stop \"</s>\"\n";
        assert_eq!(lines(zephyr).as_deref(), Some(expected));
        let without_system = zephyr.replacen("in messages", "in messages if m.role != 'system'", 1);
        assert!(lines(&without_system).is_some_and(|lines| !lines.contains("system")));
    }

    #[test]
    fn other_templates_are_not_translated() {
        for template in [
            // The system prompt is in the first message of the user.
            "{% for m in messages if m.role != 'system' %}{{ m.role + (messages[0].content if loop.first else '') + m.content }}{% endfor %}",
            // Contents are changed.
            "{% for m in messages %}{{ m.role + m.content | upper }}{% endfor %}",
            // Numbered turns.
            "{% for m in messages %}{{ loop.index }}{{ m.role + m.content }}{% endfor %}",
            "{% for m in messages %}{{ '{{' + m.role + m.content }}{% endfor %}",
        ] {
            assert_eq!(lines(template), None, "{template}");
        }
    }

    /// Prompts that Ollama makes with these lines, and the chat template of the model.
    #[test]
    fn lines_make_the_prompts_of_the_template_in_ollama() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../golden/programs/modelfiles.json");
        let rows: serde_json::Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
        for row in rows.as_array().unwrap() {
            let template = text(&row["template"]);
            let expected = format!("TEMPLATE \"\"\"{}\"\"\"\n", text(&row["go"]));
            let found = lines(&template).unwrap();
            assert!(found.starts_with(&expected), "{found}");
            let chats: [&[(&str, &str)]; 3] = [
                &[("user", USER)],
                &[("system", SYSTEM), ("user", USER)],
                &[("user", USER), ("assistant", ANSWER), ("user", NEXT)],
            ];
            for (messages, prompt) in chats.iter().zip(row["prompts"].as_array().unwrap()) {
                let made = render(&template, &Conversation::of(messages), "<s>", "</s>").unwrap();
                assert_eq!(made.strip_prefix("<s>").unwrap_or(&made), text(prompt), "{template}");
            }
        }
    }
}
