//! Text that a model generates.

use std::{ops::ControlFlow, sync::atomic::Ordering};

use gguf_runtime::{
    Piece,
    chat::{Chat, Conversation},
    generate::{Sampler, Turns, generate_from_pieces},
};
use serde::Serialize;

use super::{
    ChatOptions, GenerateOptions, Model,
    chat_session::opened_reasoning,
    media::{Media, Pieces},
    text_stream::Read,
    text_stream::TextStream,
};
use crate::{error::Error, eval_model::warn_of_length, events::Events};
use gguf_types::words;

/// Generated text.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Generated {
    /// The text. Bytes that are not UTF-8 are replaced.
    pub text: String,
    /// The tokens, without the one that ended the text.
    pub tokens: Vec<u32>,
    /// Number of positions of the prompt: tokens, and rows of images and sounds.
    pub n_prompt: usize,
    /// Seconds from the start of the prompt to the last token.
    pub seconds: f64,
    /// Speed after the first token, which waits for the whole prompt; `None` for fewer than two tokens.
    pub tokens_per_second: Option<f64>,
}

impl Model {
    /// Continues a prompt, or answers it with [`GenerateOptions::chat`] and in encoder-decoder models. `on_text` receives the text
    /// in whole characters while it is generated, after the mark of the reasoning if the chat template begins it, and stops the
    /// generation with [`ControlFlow::Break`]. [`Events::cancel`] stops it too, also between batches of the prompt. The same call always
    /// generates the same text.
    ///
    /// # Errors
    /// [`ErrorKind::Usage`](crate::ErrorKind::Usage) for invalid options and a prompt without tokens;
    /// [`Cause::Evaluation`](crate::Cause::Evaluation) for a model that does not generate text, and for logits that are not
    /// finite; as [`Model::apply_chat_template`]; an image, a sound or a projector that cannot be read; an interruption.
    ///
    /// # Examples
    /// ```no_run
    /// use std::ops::ControlFlow;
    ///
    /// use gguf_toolkit::{GenerateOptions, Model, RunOptions};
    ///
    /// # fn main() -> Result<(), gguf_toolkit::Error> {
    /// let model = Model::open("model-it.gguf", &RunOptions::default())?;
    /// let options = GenerateOptions { chat: true, max_tokens: 256, ..Default::default() };
    /// let mut print = |text: &str| {
    ///     print!("{text}");
    ///     ControlFlow::Continue(())
    /// };
    /// let made = model.generate("What is a llama?", &options, &mut print, &())?;
    /// assert_eq!(made.text, model.detokenize_lossy(&made.tokens)?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn generate(
        &self,
        prompt: &str,
        options: &GenerateOptions,
        on_text: &mut dyn FnMut(&str) -> ControlFlow<()>,
        events: &dyn Events,
    ) -> Result<Generated, Error> {
        options.check()?;
        let media = Media::open(&self.inner, options, &self.options, events)?;
        let (prompt, opened) = self.prompt_tokens(prompt, options, media.as_ref(), events)?;
        let mut stream = TextStream::new(&self.inner, on_text);
        stream.begin(&opened);
        self.continued(&prompt, media.as_ref(), options, stream, events)
    }

    /// Answers a chat of any number of messages, as [`Model::generate`] answers one. Its prompt is made by
    /// [`Model::apply_chat_template`] with `template`. Each image or sound replaces one `<__media__>` in the messages; with both, images
    /// replace `<__image__>` and sounds `<__audio__>`.
    ///
    /// # Errors
    /// As [`Model::generate`]; [`ErrorKind::Usage`](crate::ErrorKind::Usage) for a system message in `options`, which belongs in
    /// the chat.
    ///
    /// # Examples
    /// ```no_run
    /// use std::ops::ControlFlow;
    ///
    /// use gguf_toolkit::{Chat, ChatOptions, GenerateOptions, Model, RunOptions};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let model = Model::open("model-it.gguf", &RunOptions::default())?;
    /// let chat = Chat::parse(r#"[{"role": "user", "content": "What is a llama?"}]"#)?;
    /// let mut ignore = |_: &str| ControlFlow::Continue(());
    /// let options = GenerateOptions::default();
    /// let made = model.generate_chat(&chat, &ChatOptions::default(), &options, &mut ignore, &())?;
    /// println!("{}", made.text);
    /// # Ok(())
    /// # }
    /// ```
    pub fn generate_chat(
        &self,
        chat: &Chat,
        template: &ChatOptions,
        options: &GenerateOptions,
        on_text: &mut dyn FnMut(&str) -> ControlFlow<()>,
        events: &dyn Events,
    ) -> Result<Generated, Error> {
        options.check()?;
        if options.system.is_some() {
            return Err(Error::usage("`system`: expected in the messages of the chat"));
        }
        let media = Media::open(&self.inner, options, &self.options, events)?;
        let text = self.prompt(chat, template)?.prompt;
        let prompt = self.tokens_of(&text, Read::RENDERED, media.as_ref())?;
        let mut stream = TextStream::new(&self.inner, on_text);
        stream.begin(opened_reasoning(&text));
        self.continued(&prompt, media.as_ref(), options, stream, events)
    }

    /// Text that follows tokens, images and sounds.
    fn continued(
        &self,
        prompt: &Pieces,
        media: Option<&Media>,
        options: &GenerateOptions,
        mut stream: TextStream<'_>,
        events: &dyn Events,
    ) -> Result<Generated, Error> {
        let pieces = prompt.pieces(media);
        let n_prompt: usize = pieces.iter().map(Piece::n_rows).sum();
        if n_prompt == 0 {
            return Err(Error::usage("the prompt has no tokens"));
        }
        let limit = options.max_tokens;
        warn_of_length(&self.inner, n_prompt.saturating_add(limit), events);
        let cancel = events.cancel();
        let go_on = || if cancel.load(Ordering::Relaxed) { Err(Error::interrupted()) } else { Ok(()) };
        go_on()?;
        // Nothing is lost if the process ends while a long prompt is read.
        let _guard = events.ends_soon(Box::new(Error::interrupted));
        let mut watch = |id: Option<u32>| go_on().is_ok() && id.is_none_or(|id| stream.push(id));
        let sampler = &mut Sampler::new(options.sampling);
        let tokens = match &pieces[..] {
            // A model with an encoder reads only tokens.
            [Piece::Tokens(tokens)] => Turns::default()
                .generate(&self.inner, tokens, limit, sampler, &mut watch)
                .map(|turn| turn.tokens),
            pieces => generate_from_pieces(&self.inner, pieces, limit, sampler, &mut |id| watch(Some(id))),
        };
        let tokens = tokens.map_err(|error| self.failed(error))?;
        go_on()?;
        let (seconds, tokens_per_second) = stream.times();
        let text = self.detokenize_lossy(&tokens)?;
        Ok(Generated { text, tokens, n_prompt, seconds, tokens_per_second })
    }

    /// Tokens of a prompt, before, between and after its images and sounds, and its end if it begins the reasoning of the answer.
    fn prompt_tokens(
        &self,
        prompt: &str,
        options: &GenerateOptions,
        media: Option<&Media>,
        events: &dyn Events,
    ) -> Result<(Pieces, String), Error> {
        let asked = match media {
            None => prompt.to_owned(),
            Some(media) => media.with_places(prompt)?,
        };
        if !options.chat {
            let read = Read { is_rendered: false, has_special: !options.plain };
            return Ok((self.tokens_of(&asked, read, media)?, String::new()));
        }
        let system = options.system.iter().map(|text| ("system", text.as_str()));
        let messages: Vec<(&str, &str)> = system.chain([("user", asked.as_str())]).collect();
        let chat = Chat::of(&Conversation::of(&messages));
        let made = self.prompt_to_answer(&chat, &options.template).map_err(|error| {
            // Without a path it is about a limit of the program.
            let advice = error.path().map(|_| words!("omit [-chat] to pass the prompt unchanged"));
            error.hint(advice)
        })?;
        made.warning().into_iter().for_each(|warning| events.warning(warning));
        Ok((self.tokens_of(&made.prompt, Read::RENDERED, media)?, opened_reasoning(&made.prompt).to_owned()))
    }

    /// Tokens of a text with placeholders. If a template rendered it, BOS is not added twice.
    pub(super) fn tokens_of(&self, text: &str, read: Read, media: Option<&Media>) -> Result<Pieces, Error> {
        let begins = !(read.is_rendered && self.starts_with_bos(text));
        match media {
            Some(media) => media.tokens(&self.path, &self.inner, text, begins),
            None => {
                let tokens = self.inner.tokenizer().encode(text, begins, read.has_special);
                Ok(Pieces::new(tokens.map_err(|error| self.failed(error))?))
            }
        }
    }
}
