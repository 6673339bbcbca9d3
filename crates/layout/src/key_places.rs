//! Keys that the reference writes in an unusual place.

use gguf_container::{Metadata, Value};

use crate::departure::{Departed, LOWERCASE, STRIP_ACCENTS};
use crate::layout::Layout;
use gguf_tokenizer::keys as token_keys;

/// The note about a checkpoint without a chat template if the reference adds one.
pub const NO_TEMPLATE: &str =
    "missing chat template; convert_hf_to_gguf.py adds its own template for this architecture";

/// Moves the chat template to the place after `general.architecture`. The reference writes its own template
/// there before it reads that of the checkpoint.
pub fn template_first(layout: &mut Layout) {
    let key = token_keys::CHAT_TEMPLATE;
    match layout.metadata.remove(key) {
        Some(template) => layout.metadata.set_at(1, key, template),
        None => layout.notes.push(NO_TEMPLATE.into()),
    }
}

/// Adds the number of tokens after their types if the config lacks it.
///
/// Source: `_set_vocab_mistral` in `conversion/base.py`.
pub fn size_by_tokenizer(metadata: &Metadata, key: String, vocab: &mut Metadata) {
    let n_tokens = match vocab.get(token_keys::TOKENS) {
        Some(Value::Array(tokens)) => u32::try_from(tokens.len()).ok(),
        _ => None,
    };
    let types = vocab.iter().position(|(key, _)| key == token_keys::TOKEN_TYPE);
    if let (Some(n_tokens), Some(types), false) = (n_tokens, types, metadata.contains(&key)) {
        vocab.set_at(types + 1, key, n_tokens);
    }
}

/// Writes that text is converted to lower case, or warns if there is no key for it.
pub fn lower_text(layout: &mut Layout, vocab: &mut Metadata) {
    let model = vocab.get(token_keys::MODEL).and_then(Value::as_str).unwrap_or_default();
    if model != token_keys::WORDPIECE {
        layout.warnings.push(format!(
            "sentence_bert_config.json converts text to lower case, but llama.cpp has no key for it in `{model}` \
                vocabularies: vectors of text with capitals will differ from those of sentence-transformers"
        ));
        return;
    }
    let is = |key: &str| vocab.get(key).map(|value| *value == Value::Bool(true));
    if is(token_keys::LOWERCASE).unwrap_or(true) {
        return;
    }
    // Without its own key, llama.cpp strips accents if it lowers text.
    let strips = is(token_keys::STRIP_ACCENTS).unwrap_or(false);
    vocab.set(token_keys::LOWERCASE, true);
    vocab.set(token_keys::STRIP_ACCENTS, strips);
    for row in [&LOWERCASE, &STRIP_ACCENTS] {
        layout.departed.push(Departed { name: row.subject.to_owned(), row });
    }
}
