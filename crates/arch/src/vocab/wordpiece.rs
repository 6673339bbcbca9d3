//! WordPiece (BERT and its kin): `tokenizer.ggml.model` = `bert`.
//!
//! BERT marks the parts of a word that continue it (`##ing`); llama.cpp marks those that begin
//! one, with the sign that SentencePiece has for a space. So `##` goes, and every token but the
//! control tokens that had none gets a `\u{2581}` in front.
//!
//! Source: `BertModel.set_vocab` in `conversion/bert.py`.

use super::bpe::{self, Base, Style};
use super::error::VocabError;
use super::hf::HfTokenizer;
use super::keys::{self, Keys, TokenType};
use super::{VocabContext, check_rows, special};
use crate::Input;

/// The mark of a part that continues a word.
const CONTINUES: &[u8] = b"##";
/// llama.cpp's mark of a part that begins one.
const BEGINS: &str = "\u{2581}";

/// Puts the keys of a WordPiece tokenizer, after the number of token types (sentence A and B),
/// against which llama.cpp checks an embedding.
///
/// The kind is not checked in the reference, which writes any tokenizer this way; here a BPE or a
/// unigram is refused, because llama.cpp would cut every text at the wrong places.
pub(super) fn put(
    input: &Input<'_>,
    hf: &HfTokenizer,
    ctx: &VocabContext,
    keys: &mut Keys,
    notes: &mut Vec<String>,
) -> Result<(), VocabError> {
    hf.needs_kind("WordPiece")?;
    let Base { mut table, pre, .. } = bpe::base(input, hf, ctx, &Style::GPT2, notes)?;
    notes.extend(table.pad_to(ctx.embedding_rows, None));
    check_rows(table.len(), ctx)?;
    keys.put(keys::TOKEN_TYPE_COUNT, ctx.token_types());
    for (text, kind) in table.texts.iter_mut().zip(&table.types) {
        if *kind == TokenType::Control as i32 {
            continue;
        }
        if text.starts_with(CONTINUES) {
            text.drain(..CONTINUES.len());
        } else {
            text.splice(..0, BEGINS.bytes());
        }
    }
    keys.put(keys::MODEL, "bert");
    keys.put(keys::PRE, pre);
    let n_tokens = table.len();
    table.put(keys);
    let tokenizer_json = Some(hf).filter(|hf| hf.file == "tokenizer.json");
    let options = special::Options { n_vocab: Some(n_tokens), ..Default::default() };
    special::put(input, tokenizer_json, &options, n_tokens, keys, notes)
}
