//! Flags of added tokens without a metadata key. llama.cpp applies them to a few models, which it recognizes by name.
//!
//! Source: `AddedToken` of the library `tokenizers`.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value as Json;

use super::{hf::AddedToken, writer::TokenizerWriter};
use crate::TokenizerFiles;
use crate::tokenizer::Strips;

/// A flag of an added token.
struct Flag {
    name: &'static str,
    meaning: &'static str,
    is_set: fn(&AddedToken) -> bool,
    /// True if llama.cpp applies it to a token with this text.
    is_applied: fn(Strips, &str) -> bool,
}

const FLAGS: [Flag; 3] = [
    Flag {
        name: "single_word",
        meaning: "not matched inside words",
        is_set: |token| token.single_word,
        is_applied: |_, _| false,
    },
    Flag {
        name: "lstrip",
        meaning: "strips spaces on the left",
        is_set: |token| token.lstrip,
        is_applied: |strips, token| matches!(strips, Strips::LeftOf(text) if text == token),
    },
    Flag {
        name: "rstrip",
        meaning: "strips spaces on the right",
        is_set: |token| token.rstrip,
        is_applied: |strips, token| matches!(strips, Strips::RightExcept(others) if !others.contains(&token)),
    },
];

/// Tokens of a flag that a note names.
const NAMED: usize = 8;

/// Notes added tokens with flags that llama.cpp does not apply.
pub(super) fn note(writer: &mut TokenizerWriter<'_>) {
    let tokens = added_tokens(writer.input);
    // Keys that were just written have the right types.
    let strips = writer.vocab.tokenizer.strips().unwrap_or_default();
    for flag in FLAGS {
        let flagged = tokens
            .values()
            .filter(|token| (flag.is_set)(token) && !(flag.is_applied)(strips, &token.content));
        let names: Vec<String> = flagged.map(|token| format!("`{}`", token.content)).collect();
        if names.is_empty() {
            continue;
        }
        let more = match names.len().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let listed = names.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
        writer.note(format!(
            "added tokens with the flag `{}` ({}): {listed}{more}: no metadata key holds this flag and llama.cpp ignores it; \
             text next to them is tokenized differently than in training",
            flag.name,
            flag.meaning
        ));
    }
}

/// Added tokens by text, combined like transformers does: entries of tokenizer_config.json replace those of tokenizer.json.
fn added_tokens(input: &TokenizerFiles<'_>) -> BTreeMap<String, AddedToken> {
    #[derive(Deserialize)]
    struct Whole {
        #[serde(default)]
        added_tokens: Vec<AddedToken>,
    }
    #[derive(Deserialize)]
    struct Config {
        #[serde(default)]
        added_tokens_decoder: BTreeMap<String, AddedToken>,
    }
    let mut tokens = BTreeMap::new();
    let mut add = |token: AddedToken| drop(tokens.insert(token.content.clone(), token));
    // The reader of the tokenizer reports files that it needs and cannot read.
    if let Some(whole) = flagged_file::<Whole>(input, "tokenizer.json") {
        whole.added_tokens.into_iter().for_each(&mut add);
    }
    if let Some(config) = parsed::<Config>(input, "tokenizer_config.json") {
        if config.added_tokens_decoder.is_empty()
            && let Some(map) = parsed::<BTreeMap<String, Json>>(input, "special_tokens_map.json")
        {
            map.into_values().filter_map(|token| serde_json::from_value(token).ok()).for_each(&mut add);
        }
        config.added_tokens_decoder.into_values().for_each(add);
    }
    tokens
}

fn parsed<T: for<'de> Deserialize<'de>>(input: &TokenizerFiles<'_>, file: &str) -> Option<T> {
    serde_json::from_slice(input.file(file)?).ok()
}

/// Like [`parsed`], for large files: parses only if some flag is set.
fn flagged_file<T: for<'de> Deserialize<'de>>(input: &TokenizerFiles<'_>, file: &str) -> Option<T> {
    let text = std::str::from_utf8(input.file(file)?).ok()?;
    let is_set = |flag: Flag| {
        let name = format!("\"{}\"", flag.name);
        let mut values = text.match_indices(&name).map(|(at, _)| &text[at + name.len()..]);
        values.any(|rest| {
            rest.trim_start().strip_prefix(':').is_some_and(|rest| rest.trim_start().starts_with("true"))
        })
    };
    FLAGS.into_iter().any(is_set).then(|| parsed(input, file)).flatten()
}
