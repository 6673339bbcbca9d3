//! Text to token ids and back, from the `tokenizer.ggml.*` keys of a GGUF alone.
//!
//! One file for each kind of vocabulary (`bpe`, `spm`, `unigram`, `wordpiece`, `rwkv`,
//! `plamo`),
//! one for what the keys say (`vocab`), one for the special tokens (`partition`), and the
//! table of the pre-tokenizers (`pre`).
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

/// Makes token ids of text, and text of token ids.
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
    /// The encoder of these keys under a [`Reading`].
    ///
    /// # Errors
    ///
    /// When keys that the model needs are absent or contradict themselves, or when the model or
    /// the pre-tokenizer is unknown.
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
            (Model::Plamo, _) => Kind::Plamo(Box::new(plamo::Plamo::new(&vocab)?)),
            (Model::None | Model::Bpe | Model::Whitespace, _) => Kind::None,
        };
        // The merges are in the encoder now, by symbol; as texts they are the largest part of a vocabulary.
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

    /// The text of a token as the file has it: spaces and bytes may be escaped.
    pub fn token_text(&self, id: u32) -> Option<&[u8]> {
        self.vocab.tokens.get(id as usize).map(|token| &token.text[..])
    }

    /// The token that begins a text, if the keys or the kind of vocabulary name one.
    pub fn bos(&self) -> Option<u32> {
        self.vocab.bos
    }

    /// The token that ends a text, if the keys or the kind of vocabulary name one.
    pub fn eos(&self) -> Option<u32> {
        self.vocab.eos
    }

    /// The token whose text in the file is this.
    pub fn id(&self, text: &str) -> Option<u32> {
        self.vocab.ids.get(text.as_bytes()).copied()
    }

    /// The tokens that end a text or a turn: those of the keys for EOS, EOT and EOM, and those with texts in use for it, as in
    /// `llama_vocab::impl::load`.
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

    /// The ids of a text. `add_special` puts the tokens around it that the keys want there;
    /// `parse_special` finds control tokens in the text (user-defined ones are found anyway).
    /// Text that is not UTF-8 is encoded byte by byte where the kind of vocabulary allows, else
    /// with replacement characters.
    ///
    /// # Errors
    ///
    /// When the vocabulary has no token for a part of the text and no unknown token, or names no
    /// token for what is to be added.
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
        // The reference adds nothing for RWKV and PLaMo, whatever their keys say.
        let fixed = matches!(self.kind, Kind::Rwkv(_) | Kind::Plamo(_));
        if add_special && !fixed && (vocab.add_bos || is_word_piece) {
            output.push(vocab.bos.ok_or(Error::NoSpecialToken { key: keys::BOS_ID })?);
        }
        // SentencePiece prepends a space to a text. If the text was split at special tokens, each piece after
        // one is a beginning as well.
        let mut after_special = true;
        // Special tokens are found in the whole text before anything splits or normalizes it.
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

    /// The ids of a pair of texts, as rerankers take them: the separators that
    /// the keys ask for are between them, and the second text has no beginning token.
    ///
    /// # Errors
    ///
    /// As [`Encoder::encode`].
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
                // Whitespace separates words and is dropped; byte pair encoding then runs on each word.
                let text = text::replaced(text);
                for word in text.split(char::is_whitespace).filter(|word| !word.is_empty()) {
                    let word: String = match vocab.lowercase {
                        true => word.chars().map(text::simple_lower).collect(),
                        false => word.to_owned(),
                    };
                    bpe.encode(vocab, word.as_bytes(), output)?;
                }
                Ok(())
            }
            Kind::Spm => {
                // SentencePiece replaces invalid bytes; llama.cpp encodes them as byte tokens.
                let replaced = match self.reading {
                    Reading::Model => text::replaced(text),
                    // Not used: llama.cpp takes the bytes as they are.
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
    /// When an id is beyond the vocabulary.
    pub fn decode(&self, ids: &[u32]) -> Result<Vec<u8>, Error> {
        let mut output = Vec::new();
        self.decode_further(ids, &mut output)?;
        // The space that `encode` put in front belongs to the vocabulary and not to the text.
        if self.vocab.add_space_prefix && output.first() == Some(&b' ') {
            output.remove(0);
        }
        Ok(output)
    }

    /// Appends the bytes of ids that follow others: a space at their start is part of the text.
    ///
    /// # Errors
    ///
    /// As [`Encoder::decode`]. The bytes of the ids before the wrong one are appended.
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
                        // A token may hold characters that encode no byte, such as those of added tokens.
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
