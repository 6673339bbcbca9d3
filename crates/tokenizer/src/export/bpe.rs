//! Byte-level BPE as tokenizer.json.
//!
//! llama.cpp identifies a pre-tokenizer by name (`tokenizer.ggml.pre`) and has its expressions built in;
//! tokenizer.json spells them out. The table gives each name the steps that its models ship, or llama.cpp's
//! own expressions if there is no such model.
//!
//! Source: `llm_tokenizer_bpe` and `llama_vocab::impl::load` in `src/llama-vocab.cpp` of llama.cpp, as
//! vendored in llama-cpp-python 0.3.36, and the comments there that quote tokenizer.json.

use gguf_container::KeyError;
use serde_json::{Map, Value as Json, json};

use super::error::ExportError;
use super::tokens::Tokens;
use crate::huggingface::pre;
use crate::huggingface::pre::expressions::{LLAMA3, QWEN2, QWEN35, TEKKEN};

/// A pre-tokenizer.
pub(super) struct Pre {
    /// Steps, one after the other.
    steps: Vec<Step>,
    /// True if a word that is a token stays whole, regardless of merges.
    ignore_merges: bool,
    /// True if texts are normalized to NFC first.
    nfc: bool,
    /// True if a start token is added when the file does not specify it.
    pub adds_bos: bool,
}

/// A row of the table, as [`Pre`].
struct Row {
    /// Names in `tokenizer.ggml.pre`.
    names: &'static [&'static str],
    steps: &'static [Step],
    ignore_merges: bool,
    nfc: bool,
    adds_bos: bool,
}

/// A step of a pre-tokenizer.
#[derive(Clone, Copy)]
enum Step {
    /// GPT-2's splitting, built into the tokenizers library.
    Gpt2,
    /// Every digit apart.
    Digits,
    /// Matches are pieces, and so is the text between matches.
    Split(&'static str),
}

/// GPT-2's expression without the last alternative, as llama.cpp uses it after other steps.
const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)";

/// A row with the usual settings.
const fn known(names: &'static [&'static str], steps: &'static [Step]) -> Row {
    Row { names, steps, ignore_merges: false, nfc: false, adds_bos: false }
}

/// Pre-tokenizers with steps taken from the models that use a name, instead of llama.cpp's expressions.
const PRE_TOKENIZERS: &[Row] = &[
    known(
        &["default"],
        &[
            Step::Split(r"[\p{P}\$\+<=>\^~\|]+"),
            Step::Split(GPT2),
            Step::Split(r"\p{N}+"),
            Step::Split("[0-9][0-9][0-9]"),
        ],
    ),
    known(&["gpt-2", "phi-2", "gigachat", "mellum", "olmo", "mpt", "jais", "trillion"], &[Step::Gpt2]),
    known(&["smollm", "starcoder", "refact", "codeshell", "exaone"], &[Step::Digits, Step::Gpt2]),
    Row {
        ignore_merges: true,
        adds_bos: true,
        ..known(&["llama-bpe", "llama3", "llama-v3", "falcon3", "midm-2.0", "lfm2"], &[Step::Split(LLAMA3)])
    },
    known(&["smaug-bpe", "dbrx"], &[Step::Split(LLAMA3)]),
    Row { nfc: true, ..known(&["qwen2", "deepseek-r1-qwen", "stablelm2"], &[Step::Split(QWEN2)]) },
    Row { nfc: true, ..known(&["qwen35"], &[Step::Split(QWEN35)]) },
    Row { nfc: true, ..known(&["command-r"], &[Step::Digits, Step::Gpt2]) },
    Row { ignore_merges: true, adds_bos: true, ..known(&["tekken"], &[Step::Split(TEKKEN)]) },
    known(
        &["deepseek-coder"],
        &[
            Step::Split("[\r\n]"),
            Step::Split(r"\s?\p{L}+"),
            Step::Split(r"\s?\p{P}+"),
            Step::Split("[\u{4e00}-\u{9fa5}\u{800}-\u{4e00}\u{ac00}-\u{d7ff}]+"),
            Step::Digits,
        ],
    ),
];

/// The pre-tokenizer of a name: one of the table, else what llama.cpp does by that name.
///
/// # Errors
/// [`ExportError::Unsupported`] for a name that llama.cpp does not know, or has no expressions for.
pub(super) fn find(name: &str) -> Result<Pre, ExportError> {
    if let Some(row) = PRE_TOKENIZERS.iter().find(|row| row.names.contains(&name)) {
        let Row { ignore_merges, nfc, adds_bos, .. } = *row;
        return Ok(Pre { steps: row.steps.to_vec(), ignore_merges, nfc, adds_bos });
    }
    match pre::splits_of(name) {
        Some((splits, ignore_merges)) => Ok(Pre {
            steps: splits.into_iter().map(Step::Split).collect(),
            ignore_merges,
            nfc: false,
            // `llama_vocab::impl::load`; the others with a start token are in the table.
            adds_bos: matches!(name, "falcon-h1" | "pixtral" | "jina-v5-nano" | "chameleon"),
        }),
        None => {
            let known = pre::names().filter(|name| pre::splits_of(name).is_some()).collect();
            Err(ExportError::Unsupported { subject: "pre-tokenizer", found: name.to_owned(), known })
        }
    }
}

/// Merges as pairs.
///
/// # Errors
/// [`ExportError::Key`] for a merge without a space.
pub(super) fn merges(merges: &[String]) -> Result<Vec<Json>, ExportError> {
    let pair = |(i, merge): (usize, &String)| {
        // The first character may be the space itself.
        let at = merge.char_indices().skip(1).find(|(_, c)| *c == ' ').map(|(at, _)| at);
        at.map(|at| json!([merge[..at], merge[at + 1..]])).ok_or_else(|| KeyError::Value {
            key: "tokenizer.ggml.merges".to_owned(),
            expected: "two parts with a space between".to_owned(),
            found: format!("`{merge}` at {i}"),
        })
    };
    Ok(merges.iter().enumerate().map(pair).collect::<Result<Vec<Json>, KeyError>>()?)
}

/// tokenizer.json.
pub(super) fn tokenizer_json(pre: &Pre, tokens: &Tokens, merges: &[String]) -> Result<Json, ExportError> {
    let mut vocab = Map::new();
    for (id, text) in tokens.texts.iter().enumerate() {
        if !tokens.is_filler(id) {
            // Of equal texts the last one wins, and stands where the first one stood.
            vocab.insert(text.clone(), id.into());
        }
    }
    let merges = self::merges(merges)?;
    // The last step spells words in the byte alphabet, unless GPT-2's own step did so already.
    // Without offsets into special tokens there is nothing to trim.
    let byte_level = |prefix, regex| json!({"type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": true, "use_regex": regex});
    let mut steps: Vec<Json> = pre
        .steps
        .iter()
        .map(|step| match *step {
            Step::Gpt2 => byte_level(false, true),
            Step::Digits => json!({"type": "Digits", "individual_digits": true}),
            Step::Split(regex) => {
                json!({"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": false})
            }
        })
        .collect();
    if !matches!(pre.steps.last(), Some(Step::Gpt2)) {
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
        "normalizer": if pre.nfc { json!({"type": "NFC"}) } else { Json::Null },
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
            "ignore_merges": pre.ignore_merges,
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
        // One that is code in llama.cpp, not an expression; the others are of no bytes.
        assert_eq!(without, ["kimi-k2", "gemma4", "granite-embed-multi-311m", "sarvam-moe", "whitespace"]);
        let error = find("zebra").map(|_| ()).unwrap_err().to_string();
        assert!(error.contains("`zebra`") && error.contains("qwen35"), "{error}");
    }
}
