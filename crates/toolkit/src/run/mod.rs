//! Running models: tokens, prompts, logits, text, chats, embeddings and scores.

mod chat;
mod chat_session;
mod embed;
mod generate;
mod media;
mod options;
mod sampling;
mod score;
mod text;
mod text_stream;

use std::path::{Path, PathBuf};

use gguf_container::Metadata;
use gguf_runtime::{Sequence, chat::SpecialTokens};
use ndarray::Array2;
use serde::{Deserialize, Serialize};

pub use self::{
    chat::{ChatOptions, Prompt, date, example_chat, read_chat, render_prompt},
    chat_session::{ChatAnswer, ChatSession, ChatSessionOptions},
    embed::{EmbedOptions, Embedding, Embeddings},
    generate::Generated,
    options::{GenerateOptions, RunOptions},
    sampling::recommended_sampling,
    score::{ScoreOptions, Scored, TaskFile, TaskFormat},
    text::Text,
};
pub use gguf_runtime::{
    chat::{Chat, Conversation},
    choice::{Answer, Score},
    embed::Pooling,
    generate::{End, Sampling},
};

use crate::{cause::Cause, error::Error, eval_model, events::Events};

/// A GGUF file that is ready to run. Weights stay in memory maps.
pub struct Model {
    path: PathBuf,
    options: RunOptions,
    inner: gguf_runtime::Model,
}

/// Options of tokens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TokenizeOptions {
    /// Add the special tokens that the tokenizer adds around a text, such as BOS.
    pub add_special: bool,
    /// Read the texts of special tokens as these tokens.
    pub parse_special: bool,
}

impl Default for TokenizeOptions {
    fn default() -> Self {
        TokenizeOptions { add_special: true, parse_special: false }
    }
}

impl Model {
    /// Opens a GGUF file, or the split model that it belongs to.
    ///
    /// # Errors
    /// [`Cause::Evaluation`] for a file that cannot be read or run.
    ///
    /// # Examples
    /// ```no_run
    /// use gguf_toolkit::{Model, RunOptions};
    ///
    /// let model = Model::open("model.gguf", &RunOptions::default())?;
    /// println!("{} with {} tokens", model.architecture(), model.n_vocab());
    /// # Ok::<(), gguf_toolkit::Error>(())
    /// ```
    pub fn open(path: impl AsRef<Path>, options: &RunOptions) -> Result<Model, Error> {
        Model::open_with(path, options, &())
    }

    /// Same as [`Model::open`], with warnings about an unknown pre-tokenizer and unused tensors of adapters.
    ///
    /// # Errors
    /// As [`Model::open`].
    pub fn open_with(
        path: impl AsRef<Path>,
        options: &RunOptions,
        events: &dyn Events,
    ) -> Result<Model, Error> {
        let path = path.as_ref();
        let inner = eval_model::open(path, &options.of_runtime(), events)?;
        Ok(Model { path: path.to_owned(), options: options.clone(), inner })
    }

    /// The path as it was given.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Metadata in the order of the file; for a split model that of the first file.
    pub fn metadata(&self) -> &Metadata {
        self.inner.file().metadata()
    }

    /// The value of `general.architecture`.
    pub fn architecture(&self) -> &str {
        self.inner.architecture()
    }

    /// Number of tokens that are predicted.
    pub fn n_vocab(&self) -> usize {
        self.inner.n_vocab()
    }

    /// Training context length in tokens; `None` if no key states it.
    pub fn context_length(&self) -> Option<usize> {
        Some(self.inner.context_length()).filter(|length| *length > 0)
    }

    /// The model of the runtime, with all of its functions.
    pub fn runtime(&self) -> &gguf_runtime::Model {
        &self.inner
    }

    /// Tokens of a text.
    ///
    /// # Errors
    /// A text that cannot be tokenized.
    ///
    /// # Examples
    /// ```no_run
    /// # fn main() -> Result<(), gguf_toolkit::Error> {
    /// use gguf_toolkit::{Model, TokenizeOptions};
    ///
    /// let model = Model::open("model.gguf", &Default::default())?;
    /// let tokens = model.tokenize("Hello!", &TokenizeOptions { add_special: false, ..Default::default() })?;
    /// assert_eq!(model.detokenize(&tokens)?, b"Hello!");
    /// # Ok(())
    /// # }
    /// ```
    pub fn tokenize(&self, text: impl AsRef<[u8]>, options: &TokenizeOptions) -> Result<Vec<u32>, Error> {
        let TokenizeOptions { add_special, parse_special } = *options;
        let tokens = self.inner.tokenizer().encode(text, add_special, parse_special);
        tokens.map_err(|error| self.failed(error))
    }

    /// Bytes of tokens, special tokens as their text. They are not UTF-8 if a character is cut.
    ///
    /// # Errors
    /// A token that is not in the vocabulary.
    ///
    /// # Examples
    /// See [`Model::tokenize`].
    pub fn detokenize(&self, tokens: &[u32]) -> Result<Vec<u8>, Error> {
        self.inner.tokenizer().decode(tokens).map_err(|error| self.failed(error))
    }

    /// Text of tokens, in which bytes that are not UTF-8 are replaced.
    ///
    /// # Errors
    /// As [`Model::detokenize`].
    pub fn detokenize_lossy(&self, tokens: &[u32]) -> Result<String, Error> {
        Ok(String::from_utf8_lossy(&self.detokenize(tokens)?).into_owned())
    }

    /// The text that the chat template of the file makes of a chat, as `apply_chat_template` of transformers renders it. Templates
    /// are untrusted: their time and memory are limited.
    ///
    /// # Errors
    /// A missing or unknown template, a chat that the template refuses, a template that exceeds its limits, invalid options.
    ///
    /// # Examples
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use gguf_toolkit::{Chat, ChatOptions, Model, TokenizeOptions};
    ///
    /// let model = Model::open("model-it.gguf", &Default::default())?;
    /// let chat = Chat::parse(r#"[{"role": "user", "content": "Hello!"}]"#)?;
    /// let text = model.apply_chat_template(&chat, &ChatOptions::default())?;
    /// let add_special = !model.starts_with_bos(&text);
    /// let tokens = model.tokenize(&text, &TokenizeOptions { add_special, parse_special: true })?;
    /// println!("{} tokens", tokens.len());
    /// # Ok(())
    /// # }
    /// ```
    pub fn apply_chat_template(&self, chat: &Chat, options: &ChatOptions) -> Result<String, Error> {
        self.prompt(chat, options).map(|made| made.prompt)
    }

    /// Same as [`Model::apply_chat_template`], with the key of the template.
    fn prompt(&self, chat: &Chat, options: &ChatOptions) -> Result<Prompt, Error> {
        let tokens = SpecialTokens::of_model(&self.inner);
        chat::render(&self.path, self.metadata(), tokens, chat.clone(), options, false)
    }

    /// Same as [`Model::prompt`], for templates that refuse system messages, too.
    fn prompt_to_answer(&self, chat: &Chat, options: &ChatOptions) -> Result<Prompt, Error> {
        let tokens = SpecialTokens::of_model(&self.inner);
        chat::render(&self.path, self.metadata(), tokens, chat.clone(), options, true)
    }

    /// True if a text starts with the BOS token, as templates write it. Such a text needs no second one.
    pub fn starts_with_bos(&self, text: &str) -> bool {
        let bos = SpecialTokens::of_model(&self.inner).bos;
        !bos.is_empty() && text.starts_with(&bos)
    }

    /// Logits of the token that follows each of `tokens`: (n_tokens, n_vocab) f32.
    ///
    /// # Errors
    /// [`Cause::Evaluation`] for a model that does not predict the next token, and for a token that is not in the vocabulary.
    ///
    /// # Examples
    /// ```no_run
    /// # fn main() -> Result<(), gguf_toolkit::Error> {
    /// # let model = gguf_toolkit::Model::open("model.gguf", &Default::default())?;
    /// let tokens = model.tokenize("The capital of France is", &Default::default())?;
    /// let logits = model.logits(&tokens)?;
    /// assert_eq!(logits.dim(), (tokens.len(), model.n_vocab()));
    /// # Ok(())
    /// # }
    /// ```
    pub fn logits(&self, tokens: &[u32]) -> Result<Array2<f32>, Error> {
        self.inner.need_next_token().map_err(|error| self.failed(error))?;
        let mut logits = Array2::zeros((tokens.len(), self.n_vocab()));
        let Some(out) = logits.as_slice_mut().filter(|_| !tokens.is_empty()) else { return Ok(logits) };
        let hidden = self.inner.run(&[Sequence::new(tokens)], None).map_err(|error| self.failed(error))?;
        self.inner.logits(&hidden, 0..tokens.len(), None, out).map_err(|error| self.failed(error))?;
        Ok(logits)
    }

    /// A failure of this model, with its path.
    fn failed(&self, cause: impl Into<Cause>) -> Error {
        Error::at(&self.path, cause)
    }
}
