//! Text of tokens while they are generated.

use std::{ops::ControlFlow, time::Instant};

use gguf_runtime::Model;

/// Origin and meaning of a prompt.
#[derive(Debug, Clone, Copy)]
pub(super) struct Read {
    /// True if a template rendered it.
    pub is_rendered: bool,
    /// True if the text of a special token is this token, as in llama.cpp and transformers.
    pub has_special: bool,
}

impl Read {
    /// A rendered prompt.
    pub const RENDERED: Read = Read { is_rendered: true, has_special: true };
}

/// Passes on the text of tokens in whole characters, and measures the time.
pub struct TextStream<'a> {
    model: &'a Model,
    on_text: &'a mut dyn FnMut(&str) -> ControlFlow<()>,
    n_tokens: usize,
    /// True if the receiver wants no more before the first token.
    is_ended: bool,
    /// True if a token had bytes.
    has_text: bool,
    /// Bytes of an incomplete character.
    rest: Vec<u8>,
    start: Instant,
    /// When the first token was generated.
    first: Option<Instant>,
}

impl<'a> TextStream<'a> {
    /// A stream without tokens. Its time begins now.
    pub fn new(model: &'a Model, on_text: &'a mut dyn FnMut(&str) -> ControlFlow<()>) -> TextStream<'a> {
        TextStream {
            model,
            on_text,
            n_tokens: 0,
            is_ended: false,
            has_text: false,
            rest: Vec::new(),
            start: Instant::now(),
            first: None,
        }
    }

    /// Passes on a text before the first token.
    pub fn begin(&mut self, text: &str) {
        self.is_ended = !text.is_empty() && (self.on_text)(text).is_break();
    }

    /// Adds a token. False if the receiver wants no more.
    pub fn push(&mut self, token: u32) -> bool {
        if self.is_ended {
            return false;
        }
        self.n_tokens += 1;
        self.first.get_or_insert_with(Instant::now);
        // The ids are those of the vocabulary.
        let (tokenizer, before) = (self.model.tokenizer(), self.rest.len());
        let _ = tokenizer.decode_further(&[token], &mut self.rest);
        if !self.has_text && self.rest.len() > before {
            self.has_text = true;
            self.rest = tokenizer.decode(&[token]).unwrap_or_default();
        }
        // Characters of several tokens are passed on when they are whole.
        let whole = match std::str::from_utf8(&self.rest) {
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            _ => self.rest.len(),
        };
        if whole == 0 {
            return true;
        }
        let piece: Vec<u8> = self.rest.drain(..whole).collect();
        (self.on_text)(&String::from_utf8_lossy(&piece)).is_continue()
    }

    /// Seconds since the start, and tokens per second after the first one, which waits for the whole prompt; `None` for fewer than
    /// two tokens.
    pub fn times(&self) -> (f64, Option<f64>) {
        let n = self.n_tokens;
        let rate = self.first.filter(|_| n > 1);
        let rate = rate.map(|first| (n - 1) as f64 / first.elapsed().as_secs_f64().max(1e-9));
        (self.start.elapsed().as_secs_f64(), rate)
    }
}
