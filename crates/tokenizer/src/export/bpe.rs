//! Byte-level BPE as tokenizer.json.
//!
//! llama.cpp identifies a pre-tokenizer by name (`tokenizer.ggml.pre`) and has its expressions built in;
//! tokenizer.json spells them out.
//!
//! Source: `llm_tokenizer_bpe` and `llama_vocab::impl::load` in `src/llama-vocab.cpp` of llama.cpp, as
//! vendored in llama-cpp-python 0.3.36, and the comments there that quote tokenizer.json.

use gguf_container::KeyError;
use serde_json::{Map, Value as Json, json};

use super::error::ExportError;
use super::tokens::Tokens;
use crate::keys;
use crate::pre::expressions::{DIGIT, GPT2};
use crate::pre::{self, PreTokenizer};
use crate::tokenizer::space_of_merge;

pub(super) struct Pre {
    pub row: &'static PreTokenizer,
    /// Expressions, in order.
    splits: Vec<&'static str>,
    /// True if the expressions are the original ones of its models.
    is_shipped: bool,
}

/// Finds a pre-tokenizer: with the original steps of its models if known, else with llama.cpp's expressions.
///
/// # Errors
/// [`ExportError::Unsupported`] for a name that llama.cpp does not know, or has no expressions for.
pub(super) fn find(name: &str) -> Result<Pre, ExportError> {
    let has_expressions = |name: &str| pre::by_name(name).filter(|row| !row.raw && !row.is_code);
    let Some(row) = has_expressions(name) else {
        let known = pre::names().filter(|name| has_expressions(name).is_some()).collect();
        return Err(ExportError::Unsupported { subject: "pre-tokenizer", found: name.to_owned(), known });
    };
    let is_shipped = row.shipped.contains(&name);
    let splits = if is_shipped {
        row.expressions().collect()
    } else {
        pre::spelling(name).unwrap_or_default().iter().map(String::as_str).collect()
    };
    Ok(Pre { row, splits, is_shipped })
}

/// Merges as pairs.
///
/// # Errors
/// [`ExportError::Key`] for a merge without a space.
pub(super) fn merges(merges: &[String]) -> Result<Vec<Json>, ExportError> {
    let pair = |(i, merge): (usize, &String)| {
        let at = space_of_merge(merge.as_bytes());
        at.map(|at| json!([merge[..at], merge[at + 1..]])).ok_or_else(|| KeyError::Value {
            key: keys::MERGES.to_owned(),
            expected: "two parts with a space between".to_owned(),
            found: format!("`{merge}` at {i}"),
        })
    };
    Ok(merges.iter().enumerate().map(pair).collect::<Result<Vec<Json>, KeyError>>()?)
}

pub(super) fn tokenizer_json(pre: &Pre, tokens: &Tokens, merges: &[String]) -> Result<Json, ExportError> {
    let mut vocab = Map::new();
    for (id, text) in tokens.texts.iter().enumerate() {
        if !tokens.is_filler(id) {
            // The last id of equal texts wins, at the position of the first.
            vocab.insert(text.clone(), id.into());
        }
    }
    let merges = self::merges(merges)?;
    // The last step spells words in the byte alphabet, unless GPT-2's own step did so already. `trim_offsets`
    // has no effect on ids.
    let byte_level = |prefix, regex| json!({"type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": true, "use_regex": regex});
    let step = |split: &&str| match *split {
        // Built into the tokenizers library.
        GPT2 if pre.is_shipped => byte_level(false, true),
        DIGIT if pre.is_shipped => json!({"type": "Digits", "individual_digits": true}),
        regex => {
            json!({"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": false})
        }
    };
    let mut steps: Vec<Json> = pre.splits.iter().map(step).collect();
    if !pre.is_shipped || pre.splits.last() != Some(&GPT2) {
        steps.push(byte_level(false, false));
    }
    let pre_tokenizer = match steps.len() {
        1 => steps.remove(0),
        _ => json!({"type": "Sequence", "pretokenizers": steps}),
    };
    Ok(json!({
        "version": "1.0",
        "truncation": null,
        "padding": null,
        "added_tokens": tokens.added(),
        "normalizer": if pre.is_shipped && pre.row.shipped_with_nfc { json!({"type": "NFC"}) } else { Json::Null },
        "pre_tokenizer": pre_tokenizer,
        "post_processor": tokens.template(),
        "decoder": byte_level(true, true),
        "model": {
            "type": "BPE",
            "dropout": null,
            "unk_token": null,
            "continuing_subword_prefix": null,
            "end_of_word_suffix": null,
            "fuse_unk": false,
            "byte_fallback": false,
            "ignore_merges": pre.row.ignore_merges,
            "vocab": vocab,
            "merges": merges,
        },
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn byte_level_pre_tokenizers_have_steps() {
        let without: Vec<&str> = pre::names().filter(|name| find(name).is_err()).collect();
        // The first is code in llama.cpp instead of an expression; the others are not byte-level.
        assert_eq!(
            without,
            ["kimi-k2", "gemma4", "granite-embed-multi-311m", "mmbert", "sarvam-moe", "whitespace"]
        );
        let error = find("zebra").map(|_| ()).unwrap_err().to_string();
        assert!(error.contains("`zebra`") && error.contains("qwen35"), "{error}");
    }
}
