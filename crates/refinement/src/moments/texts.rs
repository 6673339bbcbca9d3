//! Chunks of tokens that statistics are collected from.

use gguf_runtime::{
    Model,
    chat::{self, SpecialTokens, Transcripts},
    chunks,
};
use gguf_types::hex;
use sha2::{Digest, Sha256};

use crate::Error;

/// Chunks of tokens, each a separate sequence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Texts {
    chunks: Vec<Vec<u32>>,
    digests: Vec<String>,
    warnings: Vec<String>,
}

impl Texts {
    /// Texts from given chunks.
    pub fn from_chunks(chunks: Vec<Vec<u32>>) -> Texts {
        let mut digest = Sha256::new();
        for chunk in &chunks {
            digest.update((chunk.len() as u64).to_le_bytes());
            chunk.iter().for_each(|token| digest.update(token.to_le_bytes()));
        }
        let digests = vec![hex(&digest.finalize())];
        Texts { chunks, digests, warnings: Vec::new() }
    }

    /// Cuts a text like an importance matrix does (`gguf-eval imatrix`).
    ///
    /// # Errors
    /// Errors of the tokenizer; [`gguf_runtime::Error::TooShort`], [`gguf_runtime::Error::OutOfRange`].
    pub fn from_text(model: &Model, text: &[u8], settings: &chunks::Settings) -> Result<Texts, Error> {
        let tokens = model.tokenizer().encode(text, true, false).map_err(gguf_runtime::Error::from)?;
        let chunks = chunks::text_chunks(model, &tokens, settings)?;
        Ok(Texts::from_chunks(chunks.into_iter().map(|chunk| chunk.tokens).collect()))
    }

    /// Chats in JSON, one per line (see [`chat::Chat::parse`]), rendered with the model's template. Each chat
    /// starts a chunk; a chat longer than `context` tokens continues in further chunks.
    ///
    /// # Errors
    /// [`Error::Chat`] for a line that is not a chat or that the template rejects; errors of the tokenizer;
    /// [`gguf_runtime::Error::OutOfRange`] for chunks without tokens.
    pub fn from_chats(model: &Model, lines: &[u8], context: usize) -> Result<Texts, Error> {
        chunks::Settings { context, ..chunks::Settings::default() }.check()?;
        let template =
            model.file().metadata().text("tokenizer.chat_template").map_err(gguf_runtime::Error::from)?;
        let chats = chat::transcripts(template, &SpecialTokens::of_model(model), lines)
            .map_err(|(line, problem)| Error::Chat { line, problem })?;
        Texts::from_transcripts(model, &chats, context)
    }

    /// Rendered chats, cut like those of [`Texts::from_chats`]. If the tokenizer adds BOS, every chunk begins with it.
    ///
    /// # Errors
    /// Errors of the tokenizer; [`gguf_runtime::Error::OutOfRange`] for chunks without tokens.
    pub fn from_transcripts(model: &Model, chats: &Transcripts, context: usize) -> Result<Texts, Error> {
        chunks::Settings { context, ..chunks::Settings::default() }.check()?;
        let tokenizer = model.tokenizer();
        let bos = tokenizer.added_bos();
        // The rest of a long chat also begins with BOS, like chunks of other texts.
        let room = context - usize::from(bos.is_some());
        let mut chunks = Vec::new();
        for tokens in chats.encode(tokenizer).map_err(gguf_runtime::Error::from)? {
            let rest = tokens.strip_prefix(bos.as_slice()).unwrap_or(&tokens);
            let parts = rest.chunks(room);
            chunks.extend(parts.map(|part| bos.into_iter().chain(part.iter().copied()).collect()));
        }
        Ok(Texts { warnings: chats.warnings(), ..Texts::from_chunks(chunks) })
    }

    /// Concatenates the chunks of several texts.
    pub fn joined(texts: impl IntoIterator<Item = Texts>) -> Texts {
        let mut all = Texts { chunks: Vec::new(), digests: Vec::new(), warnings: Vec::new() };
        for text in texts {
            all.chunks.extend(text.chunks);
            all.digests.extend(text.digests);
            all.warnings.extend(text.warnings);
        }
        all
    }

    /// Evenly spread chunks with about `n_tokens` tokens; all chunks if there are fewer.
    #[must_use]
    pub fn spread(&self, n_tokens: usize) -> Texts {
        let stride = (self.n_tokens() / n_tokens.max(1)).max(1);
        let warnings = self.warnings.clone();
        let chunks = self.chunks.iter().step_by(stride).cloned().collect();
        Texts { warnings, ..Texts::from_chunks(chunks) }
    }

    /// Warnings about lost parts of texts.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The chunks.
    pub fn chunks(&self) -> &[Vec<u32>] {
        &self.chunks
    }

    /// Tokens of all chunks.
    pub fn n_tokens(&self) -> usize {
        self.chunks.iter().map(Vec::len).sum()
    }

    /// SHA-256 of the tokens of each text.
    pub fn digests(&self) -> &[String] {
        &self.digests
    }
}
