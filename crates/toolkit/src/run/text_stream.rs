//! Text of tokens while they are generated.

use std::{ops::ControlFlow, time::Instant};

use gguf_runtime::Model;

/// Passes on the text of tokens in whole characters, and measures the time.
pub struct TextStream<'a> {
    model: &'a Model,
    on_text: &'a mut dyn FnMut(&str) -> ControlFlow<()>,
    tokens: Vec<u32>,
    /// Bytes that were passed on.
    shown: usize,
    start: Instant,
    /// When the first token was generated.
    first: Option<Instant>,
}

impl<'a> TextStream<'a> {
    /// A stream without tokens. Its time begins now.
    pub fn new(model: &'a Model, on_text: &'a mut dyn FnMut(&str) -> ControlFlow<()>) -> TextStream<'a> {
        TextStream { model, on_text, tokens: Vec::new(), shown: 0, start: Instant::now(), first: None }
    }

    /// Adds a token. False if the receiver wants no more.
    pub fn push(&mut self, token: u32) -> bool {
        self.tokens.push(token);
        self.first.get_or_insert_with(Instant::now);
        let text = self.model.tokenizer().decode(&self.tokens).unwrap_or_default();
        // Characters of several tokens are passed on when they are whole.
        let whole = match std::str::from_utf8(&text) {
            Ok(text) => text.len(),
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            Err(_) => text.len(),
        };
        if whole <= self.shown {
            return true;
        }
        let piece = String::from_utf8_lossy(&text[self.shown..whole]);
        self.shown = whole;
        (self.on_text)(&piece).is_continue()
    }

    /// Seconds since the start, and tokens per second after the first one, which waits for the whole prompt; `None` for fewer than
    /// two tokens.
    pub fn times(&self) -> (f64, Option<f64>) {
        let n = self.tokens.len();
        let rate = self.first.filter(|_| n > 1);
        let rate = rate.map(|first| (n - 1) as f64 / first.elapsed().as_secs_f64().max(1e-9));
        (self.start.elapsed().as_secs_f64(), rate)
    }
}
