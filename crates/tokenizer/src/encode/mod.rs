//! Text to token ids and back, using only the `tokenizer.ggml.*` keys of a GGUF file.
//!
//! Each kind of vocabulary has a file (`bpe`, `spm`, `unigram`, `wordpiece`, `rwkv`, `plamo`). `vocab` reads
//! the keys, `partition` finds special tokens, and `pre` is the table of pre-tokenizers.
//!
//! Source: `llama_vocab` in `src/llama-vocab.cpp` of llama.cpp, as vendored in llama-cpp-python
//! 0.3.36.

mod bpe;
mod error;
mod partition;
mod plamo;
mod reading;
mod rwkv;
mod split;
mod spm;
mod text;
mod trie;
mod unigram;
mod vocab;
mod whole;
mod wordpiece;

use std::borrow::Cow;

use crate::tokenizer::Tokenizer;
use crate::{byte_alphabet, keys};
pub use error::Error;
use partition::{Fragment, Specials};
pub use reading::Reading;
use vocab::{Model, Vocab, attr};
pub use whole::{Problem, check, doubts, missing_byte};

/// Converts text to token ids and back.
pub struct Encoder {
    vocab: Vocab,
    reading: Reading,
    specials: Specials,
    kind: Kind,
}

enum Kind {
    None,
    Spm,
    Bpe(Box<bpe::Bpe>),
    Whitespace(Box<bpe::Bpe>),
    WordPiece,
    Unigram(Box<unigram::Unigram>),
    Rwkv(Box<trie::Trie>),
    Plamo(Box<plamo::Plamo>),
}

impl Tokenizer {
    /// Creates the encoder for these keys under a [`Reading`].
    ///
    /// # Errors
    ///
    /// If required keys are missing or inconsistent, or the model or the pre-tokenizer is unknown.
    pub fn encoder(&self, reading: Reading) -> Result<Encoder, Error> {
        let mut vocab = Vocab::new(self, reading)?;
        let kind = match (vocab.model, vocab.pre) {
            (Model::Bpe, Some(pre)) => Kind::Bpe(Box::new(bpe::Bpe::new(&vocab, pre, reading)?)),
            (Model::Whitespace, Some(pre)) => {
                Kind::Whitespace(Box::new(bpe::Bpe::new(&vocab, pre, reading)?))
            }
            (Model::Spm, _) => Kind::Spm,
            (Model::WordPiece, _) => Kind::WordPiece,
            (Model::Unigram, _) => Kind::Unigram(Box::new(unigram::Unigram::new(&vocab)?)),
            (Model::Rwkv, _) => Kind::Rwkv(Box::new(rwkv::trie(&vocab))),
            (Model::Plamo, _) => Kind::Plamo(Box::new(plamo::Plamo::new(&vocab, false)?)),
            (Model::SegmentedPlamo, _) => Kind::Plamo(Box::new(plamo::Plamo::new(&vocab, true)?)),
            (Model::None | Model::Bpe | Model::Whitespace, _) => Kind::None,
        };
        // The encoder has the merges by symbol; as texts they are the largest part of a vocabulary.
        vocab.merges = Vec::new();
        let specials = Specials::new(&vocab, reading);
        Ok(Encoder { vocab, reading, specials, kind })
    }
}

impl Encoder {
    /// The value of `tokenizer.ggml.pre` if llama.cpp does not know it and the kind of vocabulary does not use it. (For
    /// kinds that use it, an unknown name is an [`Error::UnknownPre`].)
    pub fn unknown_pre(&self) -> Option<&str> {
        self.vocab.unknown_pre.as_deref()
    }

    /// Number of tokens.
    pub fn n_tokens(&self) -> usize {
        self.vocab.tokens.len()
    }

    /// Text of a token as stored in the file: spaces and bytes may be escaped.
    pub fn token_text(&self, id: u32) -> Option<&[u8]> {
        self.vocab.tokens.get(id as usize).map(|token| &token.text[..])
    }

    /// The token that begins a text, if the keys or the kind of vocabulary specify one.
    pub fn bos(&self) -> Option<u32> {
        self.vocab.bos
    }

    /// The token that ends a text, if the keys or the kind of vocabulary specify one.
    pub fn eos(&self) -> Option<u32> {
        self.vocab.eos
    }

    /// The token with this text in the file.
    pub fn id(&self, text: &str) -> Option<u32> {
        self.vocab.ids.get(text.as_bytes()).copied()
    }

    /// Tokens that end a text or a turn: those of the keys for EOS, EOT and EOM, and those with common texts
    /// for them, like in `llama_vocab::impl::load`.
    pub fn ends(&self) -> Vec<u32> {
        self.vocab.ends.clone()
    }

    /// True if texts start with [`Encoder::bos`].
    pub fn adds_bos(&self) -> bool {
        self.vocab.add_bos
    }

    /// [`Encoder::bos`] if texts start with it.
    pub fn added_bos(&self) -> Option<u32> {
        self.bos().filter(|_| self.adds_bos())
    }

    /// Encodes a text. `add_special` adds the tokens around it that the keys require; `parse_special` finds
    /// control tokens in the text (user-defined ones are always found). Invalid UTF-8 is encoded byte by byte
    /// if the kind of vocabulary allows it, else with replacement characters.
    ///
    /// # Errors
    ///
    /// If the vocabulary has neither a token for a part of the text nor an unknown token, or does not specify
    /// a token to be added.
    pub fn encode(
        &self,
        text: impl AsRef<[u8]>,
        add_special: bool,
        parse_special: bool,
    ) -> Result<Vec<u32>, Error> {
        let vocab = &self.vocab;
        let mut output = Vec::new();
        if matches!(self.kind, Kind::None) {
            return Ok(output);
        }
        let is_word_piece = matches!(self.kind, Kind::WordPiece);
        // The reference never adds tokens for RWKV.
        let fixed = matches!(self.kind, Kind::Rwkv(_));
        if add_special && !fixed && (vocab.add_bos || is_word_piece) {
            output.push(vocab.bos.ok_or(Error::NoSpecialToken { key: keys::BOS_ID })?);
        }
        // SentencePiece prepends a space to a text. If the text was split at special tokens, each piece after
        // one is a beginning as well.
        let mut after_special = true;
        // Special tokens are found before the text is split or normalized.
        for fragment in self.specials.partition(vocab, text.as_ref(), parse_special) {
            match fragment {
                Fragment::Token(id) => {
                    output.push(id);
                    after_special = true;
                }
                Fragment::Text(text) => {
                    self.encode_fragment(text, after_special, &mut output)?;
                    after_special = false;
                }
            }
        }
        if add_special && is_word_piece {
            let key = keys::SEP_ID;
            output.push(vocab.separator.ok_or(Error::NoSpecialToken { key })?);
        } else if add_special && !fixed && vocab.add_eos {
            output.push(vocab.eos.ok_or(Error::NoSpecialToken { key: keys::EOS_ID })?);
        }
        Ok(output)
    }

    /// Encodes a pair of texts for rerankers: separated as the keys require, and without a beginning token
    /// for the second text.
    pub fn encode_pair(
        &self,
        first: impl AsRef<[u8]>,
        second: impl AsRef<[u8]>,
        parse_special: bool,
    ) -> Result<Vec<u32>, Error> {
        let vocab = &self.vocab;
        let mut ids = self.encode(first, true, parse_special)?;
        // The first text of this kind ends with its separator.
        if vocab.add_separator && !matches!(self.kind, Kind::WordPiece) {
            let key = keys::SEP_ID;
            ids.push(vocab.separator.ok_or(Error::NoSpecialToken { key })?);
        }
        let second = self.encode(second, true, parse_special)?;
        // `encode` added a BOS to the second text too: it is removed; the end token stays.
        let repeats_bos = vocab.bos.is_some() && second.first().copied() == vocab.bos;
        ids.extend_from_slice(&second[usize::from(repeats_bos)..]);
        Ok(ids)
    }

    fn encode_fragment(&self, text: &[u8], after_special: bool, output: &mut Vec<u32>) -> Result<(), Error> {
        let vocab = &self.vocab;
        match &self.kind {
            Kind::None => Ok(()),
            Kind::Bpe(bpe) => bpe.encode(vocab, text, output),
            Kind::Whitespace(bpe) => {
                // Words are separated by whitespace, which is dropped; byte pair encoding then runs on each
                // word.
                let text = text::replaced(text);
                for word in text.split(char::is_whitespace).filter(|word| !word.is_empty()) {
                    let word: String = if vocab.lowercase {
                        word.chars().map(text::simple_lower).collect()
                    } else {
                        word.to_owned()
                    };
                    bpe.encode(vocab, word.as_bytes(), output)?;
                }
                Ok(())
            }
            Kind::Spm => {
                // SentencePiece replaces invalid bytes; llama.cpp encodes them as byte tokens.
                let replaced = match self.reading {
                    Reading::Model => text::replaced(text),
                    // Unused: llama.cpp encodes the bytes.
                    Reading::LlamaCpp => Cow::Borrowed(""),
                };
                let text = if self.reading == Reading::Model { replaced.as_bytes() } else { text };
                let mut escaped = Vec::with_capacity(text.len() * 2);
                let prefix: &[u8] = if vocab.add_space_prefix && after_special { b" " } else { b"" };
                for byte in prefix.iter().chain(text) {
                    match byte {
                        b' ' => escaped.extend_from_slice("\u{2581}".as_bytes()),
                        byte => escaped.push(*byte),
                    }
                }
                spm::encode(vocab, self.reading, &escaped, output)
            }
            Kind::WordPiece => wordpiece::encode(vocab, self.reading, text, output),
            Kind::Unigram(unigram) => unigram.encode(vocab, text, output),
            Kind::Rwkv(trie) => rwkv::encode(vocab, trie, text, output),
            Kind::Plamo(plamo) => {
                plamo.encode(vocab, text, output);
                Ok(())
            }
        }
    }

    /// The bytes of ids, special tokens as their text. The space that an encoder
    /// puts before the text is removed.
    ///
    /// # Errors
    ///
    /// If an id is out of range.
    pub fn decode(&self, ids: &[u32]) -> Result<Vec<u8>, Error> {
        let mut output = Vec::new();
        self.decode_further(ids, &mut output)?;
        // The space that `encode` prepends is not part of the text.
        if self.vocab.add_space_prefix && output.first() == Some(&b' ') {
            output.remove(0);
        }
        Ok(output)
    }

    /// Appends the bytes of ids that follow others: a space at their start is part of the text.
    ///
    /// # Errors
    ///
    /// Like [`Encoder::decode`]. The bytes of the ids before the invalid one are appended.
    pub fn decode_further(&self, ids: &[u32], output: &mut Vec<u8>) -> Result<(), Error> {
        for id in ids {
            let token = self
                .vocab
                .tokens
                .get(*id as usize)
                .ok_or(Error::NoSuchId { id: *id, tokens: self.n_tokens() })?;
            self.decode_token(token, output);
        }
        Ok(())
    }

    fn decode_token(&self, token: &vocab::Token, output: &mut Vec<u8>) {
        let is_special = token.attr & (attr::UNKNOWN | attr::CONTROL | attr::USER_DEFINED) != 0;
        if let Kind::Rwkv(_) = self.kind {
            output.extend(rwkv::unescaped(&token.text));
        } else if is_special {
            output.extend_from_slice(&token.text);
        } else if token.attr & attr::BYTE != 0 {
            // `<0x0A>`: the two digits are bytes 3 and 4.
            let digits = token.text.get(3..5).and_then(|digits| std::str::from_utf8(digits).ok());
            output.extend(digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()));
        } else if token.attr & attr::NORMAL != 0 {
            let spelled = matches!(self.kind, Kind::Bpe(_) | Kind::Whitespace(_));
            let text = text::replaced(&token.text);
            if spelled && !self.vocab.escape_whitespaces {
                for c in text.chars() {
                    match byte_alphabet::byte_of(c) {
                        // A token may contain characters that encode no byte, such as those of added tokens.
                        Some(byte) => output.push(byte),
                        None => output.extend(c.encode_utf8(&mut [0; 4]).bytes()),
                    }
                }
            } else {
                output.extend(text.replace('\u{2581}', " ").bytes());
            }
        }
    }
}
