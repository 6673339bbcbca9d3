//! Which of llama.cpp's pre-tokenizers a tokenizer has.
//!
//! Two kinds of evidence: the hash of a test text's tokens, which the reference goes by
//! ([`hash`]), and the expressions that the tokenizer states ([`steps`], looked up in
//! [`table`]). The hash decides where it is known, because the reference's file is what is to be
//! made; where it is not, the reference gives up, and the expressions decide here.

mod hash;
mod steps;
mod table;

use super::added::{AddedVocab, Ids};
use super::error::VocabError;
use super::hf::HfTokenizer;
use crate::Input;

pub(super) use table::QWEN2;

/// The name for `tokenizer.ggml.pre`.
pub(super) fn recognize(
    input: &Input<'_>,
    hf: &HfTokenizer,
    added: &AddedVocab,
    ids: &Ids<'_>,
    notes: &mut Vec<String>,
) -> Result<String, VocabError> {
    let hashes = hash::hashes(input, hf, added, ids);
    let steps = steps::Steps::of(&hf.normalizer, &hf.pre_tokenizer);
    let by_steps = table::by_steps(&steps, hf.model.ignore_merges.unwrap_or(false));
    let known = hashes.iter().flatten().find_map(|hash| hash::name_of(hash).map(|name| (hash, name)));
    if let Some((hash, name)) = known {
        notes.push(format!("pre-tokenizer `{name}`: by its token hash {hash}"));
        if let Some(other) = by_steps.filter(|other| !table::same_steps(other, name)) {
            notes.push(format!(
                "the expressions of the pre-tokenizer are those of `{other}`; the token hash decides"
            ));
        }
        return Ok(name.to_owned());
    }
    let hash = match &hashes {
        Ok(hashes) => hashes.first().cloned().unwrap_or_default(),
        Err(problem) => problem.clone(),
    };
    match by_steps {
        Some(name) => {
            notes.push(format!("pre-tokenizer `{name}`: by its expressions; the reference does not know its token hash {hash}"));
            Ok(name.to_owned())
        }
        None => Err(VocabError::UnknownPre { found: steps.to_string(), hash }),
    }
}

/// Every name that llama.cpp loads, in its order.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    include_str!("names.txt").lines().filter(|line| !line.starts_with('#'))
}
