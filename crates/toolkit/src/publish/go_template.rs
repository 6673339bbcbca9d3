//! Chat template of a model as a Go template for the `Modelfile` of Ollama.
//!
//! Ollama takes a known template instead of one that differs from it by fewer than 100 characters, unless the `Modelfile` has
//! `TEMPLATE`. A template can be translated if it writes each message between fixed texts of its role. This is found out by rendering
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
    /// Beginning of the model's turn.
    answer: String,
}

impl GoTemplate {
    /// Finds the texts around messages. `render` makes the prompt of messages by role and contents, with the beginning of the model's
    /// turn if the flag is set; `bos` is the text of the BOS token, which Ollama adds.
    pub fn find(render: &Render<'_>, bos: &str) -> Option<GoTemplate> {
        let prompt = |messages: &[(&str, &str)], asks| {
            let made = render(messages, asks)?;
            Some(made.strip_prefix(bos).unwrap_or(&made).to_owned())
        };
        let asked = prompt(&[("user", USER)], true)?;
        let answer = asked.strip_prefix(&prompt(&[("user", USER)], false)?)?.to_owned();
        let (before_user, rest) = asked.split_once(USER)?;
        let after_user = rest.strip_suffix(&answer)?;
        // before USER after, before ANSWER after, before NEXT after, answer.
        let turns = prompt(&[("user", USER), ("assistant", ANSWER), ("user", NEXT)], true)?;
        let turns = turns.strip_prefix(before_user)?.strip_prefix(USER)?.strip_prefix(after_user)?;
        let (before_answer, rest) = turns.split_once(ANSWER)?;
        let (after_answer, _) = rest.split_once(NEXT)?;
        let after_answer = after_answer.strip_suffix(before_user)?;
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
        let found = GoTemplate { frames, answer };
        let longer =
            [("user", NEXT), ("assistant", USER), ("user", ANSWER), ("assistant", NEXT), ("user", USER)];
        let all = [&[("system", SYSTEM)][..], &longer].concat();
        let messages = if found.frames.len() > 2 { &all[..] } else { &longer };
        (found.render(messages)? == prompt(messages, true)?).then_some(found)
    }

    fn render(&self, messages: &[(&str, &str)]) -> Option<String> {
        let mut text = String::new();
        for (role, contents) in messages {
            let frame = self.frames.iter().find(|frame| frame.role == *role)?;
            text.extend([frame.before.as_str(), contents, &frame.after]);
        }
        Some(text + &self.answer)
    }

    /// Lines of the `Modelfile`; `None` if a text cannot be written there.
    pub fn lines(&self) -> Option<String> {
        let mut text = "TEMPLATE \"\"\"{{ range .Messages }}".to_owned();
        for (index, Frame { role, before, after }) in self.frames.iter().enumerate() {
            let word = if index == 0 { "if" } else { "else if" };
            text += &format!("{{{{ {word} eq .Role \"{role}\" }}}}{before}{{{{ .Content }}}}{after}");
        }
        text += &format!("{{{{ end }}}}{{{{ end }}}}{}\"\"\"\n", self.answer);
        let stop = self.frames.iter().find(|frame| frame.role == "assistant")?.after.trim();
        let own = || self.frames.iter().flat_map(|frame| [&frame.before, &frame.after]).chain([&self.answer]);
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
            // A default system prompt, which only some chats have.
            "{% if messages[0].role != 'system' %}{{ 'You are helpful.' }}{% endif %}{% for m in messages %}{{ m.role + m.content }}{% endfor %}",
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
}
