//! The tokenizer of Llama, and of the many models with its class or its `set_vocab`.
//!
//! Source: `LlamaModel.set_vocab` in `conversion/llama.py`.

use crate::prelude::*;

/// tokenizer.model, or a llama tokenizer as tokenizer.json, or byte-level BPE; with the keys before
/// (`add_space_prefix`) and after the others (Code Llama, Granite). Without tokenizer.json, tekken.json is read.
pub const ROUTE: Route = Route::new("llama", write_keys);

/// Writes the keys of this route.
pub fn write_keys(writer: &mut TokenizerWriter<'_>) -> Result<(), VocabError> {
    // Mistral's own files count only if those of Hugging Face are missing.
    let json = writer.file("tokenizer.json").is_some();
    let is_only = writer.file("tokenizer.model").is_none() && writer.file("vocab.json").is_none();
    if !json && (writer.file("tekken.json").is_some() || (is_only && writer.has_tekken())) {
        return writer.tekken(false);
    }
    writer.add_prefix_space()?;
    if writer.has_spm() {
        writer.spm(SpmStyle::Plain)?;
        if json {
            writer.note(
                "the vocabulary is from `tokenizer.model`; only special tokens are from `tokenizer.json`",
            );
        }
    } else if writer.has_tiktoken() && !json {
        writer.note("`tokenizer.model` is a tiktoken file, not a SentencePiece model");
        writer.tiktoken()?;
    } else {
        let hf = writer.tokenizer_json()?;
        if hf.is_llama() { writer.llama_hf_of(&hf)? } else { writer.gpt2_of(Some(hf), &BpeStyle::GPT2)? }
    }
    match writer.ctx.vocab_size {
        // Code Llama, known by its size: the tokens for filling in the middle have no names in its files.
        Some(32016) => {
            let options = SpecialOptions {
                types: vec!["prefix", "suffix", "middle", "eot"],
                defaults: vec![("prefix", 32007), ("suffix", 32008), ("middle", 32009), ("eot", 32010)],
                ..SpecialOptions::default()
            };
            writer.special_tokens(&options, 32016)?;
        }
        // Small Granite models, known by their size; SmolLM has it too.
        Some(49152) => writer.set(token_keys::ADD_BOS, false),
        _ => {}
    }
    Ok(())
}
