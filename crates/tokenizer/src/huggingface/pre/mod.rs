//! Identifies the pre-tokenizer by llama.cpp's names.
//!
//! There are two kinds of evidence: the hash of a test text's tokens, which the reference uses ([`hash`]),
//! and the tokenizer's expressions ([`steps`], looked up in [`known`]). A known hash decides, because the
//! reference's file is the target. If it is unknown, the reference fails; here the expressions decide,
//! together with `ignore_merges`.

mod canon;
mod hash;
mod known;
mod steps;

use super::added::{AddedVocab, Ids};
use super::error::VocabError;
use super::hf::HfTokenizer;
use super::writer::TokenizerWriter;
use crate::keys;

/// Maximum characters of unknown expressions in an error; known ones have up to 500.
const MAX_SHOWN: usize = 2000;

/// Name for `tokenizer.ggml.pre`.
pub(super) fn recognize(
    writer: &mut TokenizerWriter<'_>,
    hf: &HfTokenizer,
    added: &AddedVocab,
    ids: &Ids<'_>,
) -> Result<String, VocabError> {
    // Both are computed even if one decides, to report differences.
    let hashes = hash::hashes(writer.input, hf, added, ids);
    let steps = steps::Steps::of(&hf.normalizer, &hf.pre_tokenizer);
    let ignore_merges = hf.model.ignore_merges.unwrap_or(false);
    let by_steps = known::by_steps(&steps, ignore_merges);
    if steps.space_first {
        writer.note(
            "the tokenizer adds a space before a text, but llama.cpp does not for byte-level BPE: start \
                prompts with a space, or their first word is tokenized differently than in training",
        );
    }
    if !steps.normalizers.is_empty() && hf.model.kind.as_deref() == Some("BPE") {
        let line = format!(
            "the tokenizer normalizes text ({}), but llama.cpp does not for byte-level BPE: text that is not \
                normalized is tokenized differently than in training",
            steps.normalizers.join(", ")
        );
        // Nearly all texts are in NFC already.
        if steps.normalizers.iter().all(|normalizer| normalizer == "NFC") {
            writer.detail(line)
        } else {
            writer.note(line)
        }
    }
    // The first hash that the reference knows decides. Later hashes were made with other special tokens than
    // the tokenizer adds, so they only count if they agree with its expressions and `ignore_merges`.
    let fits = |name: &str| {
        by_steps.is_none_or(|other| {
            known::same_steps(other, name) && known::ignores_merges(name) == Some(ignore_merges)
        })
    };
    let known = hashes.iter().flatten().enumerate().find_map(|(at, hash)| {
        hash::name_of(hash).filter(|name| at == 0 || fits(name)).map(|name| (hash, name))
    });
    if let Some((hash, name)) = known {
        let by_hash = format!("pre-tokenizer `{name}`: by its token hash {hash}");
        match by_steps {
            Some(other) if !known::same_steps(other, name) => {
                writer.note(format!(
                    "{by_hash}; its expressions match `{other}`, but the token hash takes precedence"
                ));
                writer.vocab.other_pre = Some(other.to_owned());
            }
            Some(_) if !contradicts(name, ignore_merges) => {
                writer.detail(format!("{by_hash}; and by its expressions"));
            }
            Some(other) => {
                writer.detail(format!("{by_hash}, which takes precedence"));
                note_merges(writer, name, hf);
                writer.vocab.other_pre = (!contradicts(other, ignore_merges)).then(|| other.to_owned());
            }
            None => {
                writer.detail(format!("{by_hash}; its expressions are unknown ({steps})"));
                note_merges(writer, name, hf);
            }
        }
        return Ok(name.to_owned());
    }
    let hash = match &hashes {
        Ok(hashes) => hashes.first().cloned().unwrap_or_default(),
        Err(problem) => format!("none: {problem}"),
    };
    // llama.cpp splits text for WordPiece in only one way, whatever the name.
    let by_kind = (hf.model.kind.as_deref() == Some("WordPiece")).then_some("bert-bge");
    // The reference fails on an unknown hash; expressions that llama.cpp supports are sufficient.
    match by_steps.or(by_kind) {
        Some(name) => {
            writer.detail(format!("pre-tokenizer `{name}`: by its expressions; unknown token hash {hash}"));
            note_merges(writer, name, hf);
            Ok(name.to_owned())
        }
        None => {
            let nearest = known::nearest(&steps);
            Err(VocabError::UnknownPre {
                found: steps.to_string().chars().take(MAX_SHOWN).collect(),
                hash,
                nearest: nearest
                    .map(|(name, difference)| format!("; nearest known: `{name}`: {difference}"))
                    .unwrap_or_default(),
            })
        }
    }
}

/// True if llama.cpp uses another `ignore_merges` under this name.
fn contradicts(name: &str, ignore_merges: bool) -> bool {
    known::ignores_merges(name).is_some_and(|does| does != ignore_merges)
}

/// Adds a note if `name` implies another `ignore_merges` than the tokenizer.
pub(super) fn note_merges(writer: &mut TokenizerWriter<'_>, name: &str, hf: &HfTokenizer) {
    let ignore_merges = hf.model.ignore_merges.unwrap_or(false);
    if hf.model.kind.as_deref() != Some("BPE") || !contradicts(name, ignore_merges) {
        return;
    }
    let difference = if ignore_merges {
        "`ignore_merges` is set in the tokenizer, but llama.cpp does not set it for this pre-tokenizer"
    } else {
        "`ignore_merges` is not set in the tokenizer, but llama.cpp sets it for this pre-tokenizer"
    };
    writer.note(format!(
        "pre-tokenizer `{name}`: {difference}; some words are tokenized differently than in training"
    ));
}

/// Adds notes about a name that the user chose.
pub(super) fn note_chosen(writer: &mut TokenizerWriter<'_>, name: &str, hf: &HfTokenizer) {
    let steps = steps::Steps::of(&hf.normalizer, &hf.pre_tokenizer);
    writer.note(format!("pre-tokenizer `{name}`: as specified; the tokenizer splits by {steps}"));
    note_merges(writer, name, hf);
}

/// Warns if llama.cpp does not know the name that the user chose; notes if the kind of tokenizer does not use
/// one.
pub(super) fn note_choice(writer: &mut TokenizerWriter<'_>) {
    let Some(name) = writer.ctx.pre.clone() else { return };
    match writer.vocab.tokenizer.keys.get(keys::PRE).and_then(|value| value.as_str()) {
        Some(written) if written == name => {
            if !crate::pre::names().any(|known| known == name) {
                let nearest = crate::pre::nearest(&name).join("`, `");
                writer.vocab.warnings.push(format!(
                    "pre-tokenizer `{name}`: as specified, but unknown to llama.cpp; nearest known: `{nearest}`"
                ));
            }
        }
        written => {
            let written = written.map_or("no pre-tokenizer".to_owned(), |written| format!("`{written}`"));
            writer.note(format!(
                "pre-tokenizer `{name}` was specified, but this kind of tokenizer does not have one: the \
                    file has {written}"
            ));
        }
    }
}
