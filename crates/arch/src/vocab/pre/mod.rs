//! Which of llama.cpp's pre-tokenizers a tokenizer has.
//!
//! Two kinds of evidence: the hash of a test text's tokens, which the reference goes by
//! ([`hash`]), and the expressions that the tokenizer states ([`steps`], looked up in
//! [`table`]). The hash decides where it is known, because the reference's file is what is to be
//! made; where it is not, the reference gives up, and the expressions decide here.

mod canon;
mod hash;
mod steps;
mod table;

use super::added::{AddedVocab, Ids};
use super::error::VocabError;
use super::hf::HfTokenizer;
use crate::Input;

pub(super) use table::{GPT4O, LLAMA3, QWEN2};

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
    if steps.space_first {
        notes.push("a space is put in front of a text; llama.cpp does not do that for byte-level BPE".into());
    }
    if !steps.normalizers.is_empty() && hf.model.kind.as_deref() == Some("BPE") {
        notes.push(format!(
            "text is normalized first ({}): no key says so, and llama.cpp does not do it for byte-level BPE",
            steps.normalizers.join(", ")
        ));
    }
    let known = hashes.iter().flatten().find_map(|hash| hash::name_of(hash).map(|name| (hash, name)));
    if let Some((hash, name)) = known {
        let other = match by_steps {
            Some(other) if table::same_steps(other, name) => "and by its expressions".to_owned(),
            Some(other) => {
                format!("its expressions are those of `{other}`: the token hash decides, as in the reference")
            }
            None => format!("no name is known for its expressions ({steps})"),
        };
        notes.push(format!("pre-tokenizer `{name}`: by its token hash {hash}; {other}"));
        return Ok(name.to_owned());
    }
    let hash = match &hashes {
        Ok(hashes) => hashes.first().cloned().unwrap_or_default(),
        Err(problem) => problem.clone(),
    };
    // llama.cpp has one way to cut text for WordPiece, whatever the name.
    let by_kind = (hf.model.kind.as_deref() == Some("WordPiece")).then_some("bert-bge");
    match by_steps.or(by_kind) {
        Some(name) => {
            notes.push(format!("pre-tokenizer `{name}`: by its expressions; the reference does not know its token hash {hash}"));
            Ok(name.to_owned())
        }
        None => {
            let nearest = table::nearest(&steps);
            Err(VocabError::UnknownPre {
                found: steps.to_string(),
                hash,
                nearest: nearest
                    .map(|(name, how)| format!("; nearest known is `{name}`: {how}"))
                    .unwrap_or_default(),
            })
        }
    }
}

/// A note on a name that a person chose: whether llama.cpp knows it.
pub(super) fn chosen(name: &str, hf: &HfTokenizer) -> String {
    let steps = steps::Steps::of(&hf.normalizer, &hf.pre_tokenizer);
    match names().any(|known| known == name) {
        true => format!("pre-tokenizer `{name}`: as chosen; the tokenizer splits by {steps}"),
        false => format!("pre-tokenizer `{name}`: as chosen, but llama.cpp loads no file with that name"),
    }
}

/// Every name that llama.cpp loads, in its order.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    include_str!("names.txt").lines().filter(|line| !line.starts_with('#'))
}
