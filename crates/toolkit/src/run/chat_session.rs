//! Chats of several turns, in which each turn runs only the tokens that are new.

use std::ops::{ControlFlow, Deref};

use gguf_runtime::{
    chat::{Chat, Conversation, Turn},
    generate::{End, Sampler, Sampling, Turns},
};
use serde::{Deserialize, Serialize};

use super::{
    ChatOptions, Model,
    chat::{THINKING, template_of},
    recommended_sampling,
    text_stream::Read,
    text_stream::TextStream,
};
use crate::{error::Error, events::Events};

/// Options of a chat of several turns.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ChatSessionOptions {
    /// System message.
    pub system: Option<String>,
    /// Maximum number of tokens of an answer. Default: the rest of the context, unless the answer repeats itself.
    pub max_tokens: Option<usize>,
    /// Choice of each token. Default: [`recommended_sampling`].
    pub sampling: Option<Sampling>,
    /// Options of the chat template.
    pub template: ChatOptions,
}

/// An answer of the model.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ChatAnswer {
    /// The answer without the reasoning before it.
    pub content: String,
    /// The reasoning before the answer, if the model marks it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thinking: Option<String>,
    /// The whole text, with the marks of the reasoning.
    #[serde(skip)]
    pub text: String,
    /// Reason for the end.
    pub end: End,
    /// Number of generated tokens.
    pub n_tokens: usize,
    /// Number of tokens of the prompt, which holds the whole chat.
    pub n_prompt: usize,
    /// Number of tokens of the prompt that were not computed again.
    pub n_reused: usize,
    /// Seconds from the start of the prompt to the last token.
    pub seconds: f64,
    /// Speed after the first token, which waits for the prompt; `None` for fewer than two tokens.
    pub tokens_per_second: Option<f64>,
}

/// A message of the chat.
#[derive(Debug, Clone)]
struct Message {
    role: &'static str,
    content: String,
    thinking: Option<String>,
}

/// A chat of several turns with a model.
///
/// # Examples
/// ```no_run
/// use std::ops::ControlFlow;
///
/// use gguf_toolkit::{ChatSession, ChatSessionOptions, Model};
///
/// # fn main() -> Result<(), gguf_toolkit::Error> {
/// let model = Model::open("model-it.gguf", &Default::default())?;
/// let mut chat = ChatSession::new(&model, &ChatSessionOptions::default(), &())?;
/// for message in ["What is a llama?", "And an alpaca?"] {
///     let answer = chat.ask(message, &mut |_| ControlFlow::Continue(()), &|| false)?;
///     println!("{}", answer.content);
/// }
/// # Ok(())
/// # }
/// ```
pub struct ChatSession<M> {
    model: M,
    options: ChatSessionOptions,
    sampler: Sampler,
    messages: Vec<Message>,
    turns: Turns,
}

impl<M: Deref<Target = Model>> ChatSession<M> {
    /// A chat without messages, with a reference to a model or an `Arc` of it. Warns if the template has no variable for thinking.
    ///
    /// # Errors
    /// [`ErrorKind::Usage`](crate::ErrorKind::Usage) for sampling out of its range; a missing or unknown template.
    pub fn new(model: M, options: &ChatSessionOptions, events: &dyn Events) -> Result<ChatSession<M>, Error> {
        let sampling = options.sampling.unwrap_or_else(|| recommended_sampling(model.metadata()));
        sampling.check().map_err(Error::usage)?;
        let (_, template) = template_of(model.path(), model.metadata(), &options.template, false)?;
        if options.template.think.is_some() && !THINKING.iter().any(|name| template.contains(name)) {
            let names = THINKING.map(|name| format!("`{name}`")).join(" or ");
            events.warning(format!("the chat template has no variable {names}; thinking is unchanged"));
        }
        let (options, sampler) = (options.clone(), Sampler::new(sampling));
        let chat = ChatSession { model, options, sampler, messages: Vec::new(), turns: Turns::default() };
        chat.warn_of_system(events);
        Ok(chat)
    }

    /// Warns if the template leaves out or refuses the system message.
    pub fn warn_of_system(&self, events: &dyn Events) {
        let question = Turn { role: "user", content: "Hello", ..Turn::default() };
        let made = self.model.prompt_to_answer(&self.chat(Some(question)), &self.options.template);
        // A template that fails is an error of the first answer.
        if let Some(warning) = made.ok().and_then(|made| made.warning()) {
            events.warning(warning);
        }
    }

    /// Sampling of the chat.
    pub fn sampling(&self) -> Sampling {
        self.sampler.sampling()
    }

    /// Forgets all messages except the system message.
    pub fn reset(&mut self) {
        self.messages.clear();
    }

    /// Replaces the system message; `None` removes it.
    pub fn set_system(&mut self, system: Option<String>) {
        self.options.system = system;
    }

    /// Answers a message of the user. `on_text` receives the text in whole characters while it is generated, with marks of the
    /// reasoning, and ends the answer with [`ControlFlow::Break`]. `is_stopped` is also asked while the prompt is computed. An
    /// ended answer stays in the chat.
    ///
    /// # Errors
    /// As [`Model::generate`]; [`Error::usage`] for a chat that fills the context. The message is then forgotten.
    pub fn ask(
        &mut self,
        message: &str,
        on_text: &mut dyn FnMut(&str) -> ControlFlow<()>,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<ChatAnswer, Error> {
        self.messages.push(Message { role: "user", content: message.to_owned(), thinking: None });
        let answer = self.answer(on_text, is_stopped);
        match &answer {
            Ok(ChatAnswer { content, thinking, .. }) => {
                let (content, thinking) = (content.clone(), thinking.clone());
                self.messages.push(Message { role: "assistant", content, thinking });
            }
            Err(_) => {
                self.messages.pop();
            }
        }
        answer
    }

    fn answer(
        &mut self,
        on_text: &mut dyn FnMut(&str) -> ControlFlow<()>,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<ChatAnswer, Error> {
        let model = &*self.model;
        let prompt = model.prompt_to_answer(&self.chat(None), &self.options.template)?.prompt;
        let tokens = model.tokens_of(&prompt, Read::RENDERED, None)?.into_tokens();
        let limit = self.limit(tokens.len())?;
        let opened = opened_reasoning(&prompt);
        let mut stream = TextStream::new(model.runtime(), on_text);
        stream.begin(opened);
        let (mut tokens_so_far, mut repeats) = (Vec::new(), false);
        let has_limit = self.options.max_tokens.is_some();
        let mut watch = |token: Option<u32>| {
            tokens_so_far.extend(token);
            repeats = !has_limit && is_loop(&tokens_so_far);
            token.is_none_or(|id| stream.push(id)) && !is_stopped() && !repeats
        };
        let (turns, sampler) = (&mut self.turns, &mut self.sampler);
        let made = turns.generate(model.runtime(), &tokens, limit, sampler, &mut watch);
        let made = made.map_err(|error| model.failed(error))?;
        let (seconds, tokens_per_second) = stream.times();
        let text = opened.to_owned() + &model.detokenize_lossy(&made.tokens)?;
        let (thinking, content) = parts_of(&text);
        Ok(ChatAnswer {
            content,
            thinking,
            text,
            end: if repeats { End::Repetition } else { made.end },
            n_tokens: made.tokens.len(),
            n_prompt: tokens.len(),
            n_reused: made.n_reused,
            seconds,
            tokens_per_second,
        })
    }

    /// The chat as a template gets it, with a further message.
    fn chat(&self, next: Option<Turn<'_>>) -> Chat {
        let system = self.options.system.as_deref();
        let system = system.map(|content| Turn { role: "system", content, ..Turn::default() });
        let messages = self.messages.iter().map(|Message { role, content, thinking }| Turn {
            role,
            content,
            reasoning_content: thinking.as_deref(),
            ..Turn::default()
        });
        let messages = system.into_iter().chain(messages).chain(next).collect();
        Chat::of(&Conversation { name: "chat", messages, tools: Vec::new() })
    }

    /// Maximum number of tokens after a prompt of `n_prompt`.
    fn limit(&self, n_prompt: usize) -> Result<usize, Error> {
        let wanted = self.options.max_tokens.unwrap_or(usize::MAX);
        let Some(context) = self.model.context_length() else { return Ok(wanted) };
        match context.saturating_sub(n_prompt) {
            0 => Err(Error::usage(format_args!(
                "the chat has {n_prompt} tokens, but the context length of the model is {context}"
            ))),
            left => Ok(wanted.min(left)),
        }
    }
}

/// True if a text ends in a part of up to 256 tokens that occurs at least four times in a row and fills at least 128 tokens. Models
/// seldom leave such a loop before the context is full.
fn is_loop(tokens: &[u32]) -> bool {
    (1..=256).any(|period| {
        let start = tokens.len().checked_sub(128.max(4 * period));
        start.is_some_and(|start| tokens[start..].iter().zip(&tokens[start + period..]).all(|(a, b)| a == b))
    })
}

/// Marks around the reasoning: before and after it.
const MARKS: [(&str, &str); 5] = [
    ("<think>", "</think>"),
    ("<seed:think>", "</seed:think>"),
    ("[THINK]", "[/THINK]"),
    ("<|channel>thought", "<channel|>"),
    ("<|channel|>analysis<|message|>", "<|end|><|start|>assistant<|channel|>final<|message|>"),
];

/// The end of a prompt that begins the reasoning of the answer; empty in other prompts.
pub(super) fn opened_reasoning(prompt: &str) -> &str {
    let begins = |(before, _): &(&str, &str)| prompt.trim_end().ends_with(before);
    let mark = MARKS.iter().find(|mark| begins(mark)).and_then(|(before, _)| prompt.rfind(before));
    mark.map_or("", |at| &prompt[at..])
}

/// Reasoning and answer of a text with its marks.
fn parts_of(text: &str) -> (Option<String>, String) {
    for (before, after) in MARKS {
        let Some(thought) = text.trim_start().strip_prefix(before) else { continue };
        let (thought, answer) = thought.split_once(after).unwrap_or((thought, ""));
        return (Some(thought.trim().to_owned()), answer.trim_start().to_owned());
    }
    let text = text.strip_prefix("<|channel|>final<|message|>").unwrap_or(text);
    (None, text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loops_are_found_in_four_periods() {
        let text = |period: u32, n: u32| (0..n).map(|i| i % period).collect::<Vec<_>>();
        for (tokens, expected) in [
            (text(1, 128), true),
            (text(1, 127), false),
            (text(30, 127), false),
            (text(30, 128), true),
            (text(100, 399), false),
            ([text(500, 300), text(100, 400)].concat(), true),
            ([text(100, 400), vec![7]].concat(), false),
            (text(257, 1100), false),
        ] {
            assert_eq!(is_loop(&tokens), expected, "{}", tokens.len());
        }
    }

    #[test]
    fn reasoning_is_separated_from_answer() {
        let parts = |prompt, text: &str| parts_of(&(opened_reasoning(prompt).to_owned() + text));
        let thought = |thought: &str, answer: &str| (Some(thought.to_owned()), answer.to_owned());
        assert_eq!(parts("", "An animal.\n"), (None, "An animal.\n".to_owned()));
        assert_eq!(parts("", "<think>\nHm.\n</think>\n\nAn animal."), thought("Hm.", "An animal."));
        // The template begins the reasoning.
        assert_eq!(parts("assistant\n<think>\n", "Hm.</think>An animal."), thought("Hm.", "An animal."));
        assert_eq!(parts("", "[THINK]Hm.[/THINK]An animal."), thought("Hm.", "An animal."));
        // Interrupted.
        assert_eq!(parts("", "<think>\nHm"), thought("Hm", ""));
        let harmony =
            "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Yes.";
        assert_eq!(parts("", harmony), thought("Hm.", "Yes."));
        assert_eq!(parts("", "<|channel|>final<|message|>Yes."), (None, "Yes.".to_owned()));
        // Empty reasoning, as templates write it if thinking is off.
        assert_eq!(parts("<think>\n\n</think>\n\n", "Yes."), (None, "Yes.".to_owned()));
    }
}
