//! Flags of added tokens without a metadata key. llama.cpp applies them to a few models, which it recognizes by name.
//!
//! Source: `AddedToken` of the library `tokenizers`.

use std::collections::BTreeMap;

use super::{consistency::Listed, error::listed_names, hf::AddedToken, writer::TokenizerWriter};
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

/// Notes added tokens with flags that llama.cpp does not apply. Of several entries for a text, the last
/// counts.
pub(super) fn note(writer: &mut TokenizerWriter<'_>, listed: &[Listed]) {
    let tokens: BTreeMap<&str, &AddedToken> =
        listed.iter().map(|listed| (listed.token.content.as_str(), &listed.token)).collect();
    // These keys were just written, so they have the right types.
    let strips = writer.vocab.tokenizer.strips().unwrap_or_default();
    for flag in FLAGS {
        let flagged = tokens
            .values()
            .filter(|token| (flag.is_set)(token) && !(flag.is_applied)(strips, &token.content));
        let names: Vec<String> = flagged.map(|token| format!("`{}`", token.content)).collect();
        if names.is_empty() {
            continue;
        }
        let listed = listed_names(&names);
        writer.note(format!(
            "added tokens with the flag `{}` ({}): {listed}: no metadata key holds this flag and llama.cpp ignores it; \
             text next to them is tokenized differently than in training",
            flag.name,
            flag.meaning
        ));
    }
}
