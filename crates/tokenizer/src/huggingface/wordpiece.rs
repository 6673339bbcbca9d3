//! WordPiece (BERT and its family): `tokenizer.ggml.model` = `bert`.
//!
//! BERT marks the parts that continue a word (`##ing`); llama.cpp marks those that begin one, with
//! SentencePiece's space mark. So `##` is removed, and all other tokens except control tokens get a leading
//! `\u{2581}`.
//!
//! Source: `BertModel.set_vocab` in `conversion/bert.py`.

use super::bpe::{self, Base, BpeStyle};
use super::error::VocabError;
use super::hf::HfTokenizer;
use super::special;
use super::writer::TokenizerWriter;
use crate::keys;
use crate::token_type::TokenType;

/// Mark of a part that continues a word.
const CONTINUES: &[u8] = b"##";
/// llama.cpp's mark of a part that begins a word.
const BEGINS: &str = "\u{2581}";

impl TokenizerWriter<'_> {
    /// Like [`TokenizerWriter::wordpiece`], for a vocabulary that was read already. Keys follow the number of
    /// token types (sentence A and B), which llama.cpp compares with an embedding.
    ///
    /// The reference does not check the kind and writes any tokenizer this way; here a BPE or a unigram is
    /// refused, because llama.cpp would split every text incorrectly.
    pub fn wordpiece_of(&mut self, hf: &HfTokenizer) -> Result<(), VocabError> {
        hf.needs_kind("WordPiece")?;
        let Base { mut table, pre, .. } = bpe::base(self, hf, &BpeStyle::GPT2)?;
        self.pad_to_rows(&mut table, None)?;
        self.set(keys::TOKEN_TYPE_COUNT, self.ctx.token_types());
        // `##ing` -> `ing`, `the` -> `\u{2581}the`, `[CLS]` -> `[CLS]`: fillers get the mark as well.
        for (text, kind) in table.texts.iter_mut().zip(&table.types) {
            if *kind == TokenType::Control {
                continue;
            }
            if text.starts_with(CONTINUES) {
                text.drain(..CONTINUES.len());
            } else {
                text.splice(..0, BEGINS.bytes());
            }
        }
        let n_tokens = self.set_vocab("bert", &pre, table);
        let tokenizer_json = Some(hf).filter(|hf| hf.file == "tokenizer.json");
        let options = special::SpecialOptions { n_vocab: Some(n_tokens), ..Default::default() };
        special::write_keys(self, tokenizer_json, &options, n_tokens)
    }
}
