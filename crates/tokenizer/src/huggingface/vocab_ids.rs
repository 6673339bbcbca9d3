//! Ids of the tokens of a tokenizer.json, and checks of its merges.

use super::added::Ids;
use super::error::VocabError;
use super::hf::{HfTokenizer, malformed};

/// Token to id; fails for duplicate ids.
pub(super) fn ids_of(hf: &HfTokenizer) -> Result<Ids<'_>, VocabError> {
    let vocab = &hf.model.vocab.0;
    let mut ids = Ids::with_capacity_and_hasher(vocab.len(), ahash::RandomState::new());
    let mut by_id: Vec<(u32, &str)> = Vec::with_capacity(vocab.len());
    for (text, id) in vocab {
        if ids.insert(text, *id).is_some() {
            return Err(malformed(hf.file, &format!("duplicate token `{text}`")));
        }
        by_id.push((*id, text));
    }
    // Most files list tokens by id already, and sorting a quarter of a million strings takes noticeable time.
    if !by_id.is_sorted() {
        by_id.sort_unstable();
    }
    for pair in by_id.windows(2) {
        if pair[0].0 == pair[1].0 {
            return Err(VocabError::RepeatedId {
                id: pair[0].0.into(),
                first: pair[0].1.to_owned(),
                second: pair[1].1.to_owned(),
            });
        }
    }
    Ok(ids)
}

/// Checks that every merge joins two tokens into a third.
pub(super) fn check_merges(hf: &HfTokenizer, ids: &Ids<'_>) -> Result<(), VocabError> {
    let prefix = hf.model.continuing_subword_prefix.as_deref().unwrap_or("");
    // WordPiece-like BPEs mark continuing parts (`##`); the joined token lacks the mark.
    let mut joined = String::new();
    for (index, (left, right)) in hf.model.merges.0.iter().enumerate() {
        joined.clear();
        joined.push_str(left);
        joined.push_str(right.strip_prefix(prefix).unwrap_or(right));
        for token in [left, right, &joined] {
            if !ids.contains_key(token.as_str()) {
                return Err(VocabError::MergeOfUnknown {
                    file: if hf.file == "vocab.json" { "merges.txt" } else { hf.file },
                    index,
                    left: left.clone(),
                    right: right.clone(),
                    token: token.clone(),
                });
            }
        }
    }
    Ok(())
}
