//! Byte-level BPE as tokenizer.json.
//!
//! llama.cpp knows a pre-tokenizer by name (`tokenizer.ggml.pre`) and has its expressions built
//! in; tokenizer.json spells it out. The table gives each name the steps that the models behind
//! it ship, or llama.cpp's own expressions where there is no such model.
//!
//! Source: `llm_tokenizer_bpe` and `llama_vocab::impl::load` in `src/llama-vocab.cpp` of
//! llama.cpp, as vendored in llama-cpp-python 0.3.36, and the comments there that quote
//! tokenizer.json.

use gguf::KeyError;
use serde_json::{Map, Value as Json, json};

use super::error::ExportError;
use super::tokens::Tokens;
use crate::vocab::pre::expressions::{LLAMA3, QWEN2, TEKKEN};

/// One pre-tokenizer.
pub struct Pre {
    /// Names in `tokenizer.ggml.pre`.
    pub names: &'static [&'static str],
    /// Steps, one after the other.
    steps: &'static [Step],
    /// Whether a word that is a token stays whole, whatever the merges say.
    ignore_merges: bool,
    /// Whether texts are brought to Unicode's composed form first.
    nfc: bool,
    /// Whether a start token is put before a text where the file does not say.
    pub adds_bos: bool,
}

/// A step of a pre-tokenizer.
enum Step {
    /// What GPT-2 does, built into the tokenizers library.
    Gpt2,
    /// Every digit apart.
    Digits,
    /// What matches is a piece, and so is what is between two of them.
    Split(&'static str),
}

/// GPT-2's, without the last alternative: llama.cpp has it so behind other steps.
const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)";

/// A row with the usual settings.
const fn pre(names: &'static [&'static str], steps: &'static [Step]) -> Pre {
    Pre { names, steps, ignore_merges: false, nfc: false, adds_bos: false }
}

/// Every pre-tokenizer that can be exported.
pub const PRE_TOKENIZERS: &[Pre] = &[
    pre(
        &["default"],
        &[
            Step::Split(r"[\p{P}\$\+<=>\^~\|]+"),
            Step::Split(GPT2),
            Step::Split(r"\p{N}+"),
            Step::Split("[0-9][0-9][0-9]"),
        ],
    ),
    pre(&["gpt-2", "phi-2", "gigachat", "mellum", "olmo", "mpt", "jais", "trillion"], &[Step::Gpt2]),
    pre(&["smollm", "starcoder", "refact", "codeshell", "exaone"], &[Step::Digits, Step::Gpt2]),
    Pre {
        ignore_merges: true,
        adds_bos: true,
        ..pre(&["llama-bpe", "llama3", "llama-v3", "falcon3", "midm-2.0", "lfm2"], &[Step::Split(LLAMA3)])
    },
    pre(&["smaug-bpe", "dbrx"], &[Step::Split(LLAMA3)]),
    Pre { nfc: true, ..pre(&["qwen2", "deepseek-r1-qwen", "stablelm2"], &[Step::Split(QWEN2)]) },
    Pre { ignore_merges: true, adds_bos: true, ..pre(&["tekken"], &[Step::Split(TEKKEN)]) },
    pre(
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

/// The pre-tokenizer of a name.
pub fn find(name: &str) -> Result<&'static Pre, ExportError> {
    PRE_TOKENIZERS.iter().find(|pre| pre.names.contains(&name)).ok_or_else(|| ExportError::Tokenizer {
        what: "pre-tokenizer",
        found: name.to_owned(),
        known: PRE_TOKENIZERS.iter().flat_map(|pre| pre.names.iter().copied()).collect(),
    })
}

/// tokenizer.json.
pub fn tokenizer_json(pre: &Pre, tokens: &Tokens, merges: &[String]) -> Result<Json, ExportError> {
    let mut vocab = Map::new();
    for (id, text) in tokens.texts.iter().enumerate() {
        if !tokens.is_filler(id) {
            // Of equal texts the last one wins, and stands where the first one stood.
            vocab.insert(text.clone(), id.into());
        }
    }
    let merges = merges.iter().enumerate().map(|(i, merge)| {
        // The first character may be the space itself.
        let at = merge.char_indices().skip(1).find(|(_, c)| *c == ' ').map(|(at, _)| at);
        at.map(|at| json!([merge[..at], merge[at + 1..]])).ok_or_else(|| KeyError::Value {
            key: "tokenizer.ggml.merges".to_owned(),
            expected: "two parts with a space between".to_owned(),
            found: format!("`{merge}` at {i}"),
        })
    });
    let merges = merges.collect::<Result<Vec<Json>, KeyError>>()?;
    // The last step spells words in the byte alphabet, unless GPT-2's own step did so already.
    // Without offsets into special tokens there is nothing to trim.
    let byte_level = |prefix, regex| json!({"type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": true, "use_regex": regex});
    let mut steps: Vec<Json> = pre
        .steps
        .iter()
        .map(|step| match step {
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
