//! Recognizes a pre-tokenizer by its expressions.
//!
//! Names that share expressions differ in another property, which each row of [`KNOWN`] states. The first
//! match counts. Then the names that llama.cpp loads follow, with its own spelling of the expressions.
//!
//! Source: `llm_tokenizer_bpe` and `llama_vocab::impl::load` in `src/llama-vocab.cpp`, whose comments contain
//! the expressions of the models' tokenizer.json.

use super::canon::canonical;
use super::steps::Steps;
use crate::pre::{Spelling, by_name, spelling, spellings};

/// A name that is recognized by the expressions of the models' tokenizer.json.
struct Known {
    /// Name in `tokenizer.ggml.pre`.
    name: &'static str,
    /// True if words that are tokens are not split; `None` if the name does not determine it.
    ignore_merges: Option<bool>,
    /// The normalizer that distinguishes it from the next row with the same expressions.
    normalizer: Option<&'static str>,
}

impl Known {
    /// Expressions, in order.
    fn splits(&self) -> Vec<&'static str> {
        by_name(self.name).map(|row| row.expressions().collect()).unwrap_or_default()
    }
}

const fn known(name: &'static str) -> Known {
    Known { name, ignore_merges: None, normalizer: None }
}

const KNOWN: &[Known] = &[
    known("gpt-2"),
    Known { normalizer: Some("NFC"), ..known("command-r") },
    known("smollm"),
    Known { ignore_merges: Some(true), ..known("llama-bpe") },
    known("smaug-bpe"),
    known("qwen2"),
    known("qwen35"),
    known("gpt-4o"),
    known("tekken"),
    known("deepseek-v3"),
    known("jais-2"),
    known("bailingmoe"),
    known("seed-coder"),
    known("exaone-moe"),
    Known { ignore_merges: Some(true), ..known("minicpm5") },
    known("ufakzeka"),
];

pub(super) fn canonical_splits(splits: impl IntoIterator<Item = impl AsRef<str>>) -> Vec<Vec<String>> {
    splits.into_iter().map(|split| canonical(split.as_ref())).collect()
}

/// The name for a normal form: an identical row of [`KNOWN`], else an equivalent one, else an equivalent row
/// of llama.cpp's table.
pub(super) fn by_steps(steps: &Steps, ignore_merges: bool) -> Option<&'static str> {
    if !steps.byte_level || !steps.other.is_empty() {
        return None;
    }
    let fits = |known: &&Known| {
        known.ignore_merges.is_none_or(|expected| expected == ignore_merges)
            && known.normalizer.is_none_or(|expected| steps.normalizers.iter().any(|other| other == expected))
    };
    let to_the_letter = |known: &&Known| known.splits() == steps.splits;
    if let Some(known) = KNOWN.iter().filter(to_the_letter).find(fits) {
        return Some(known.name);
    }
    let splits = canonical_splits(&steps.splits);
    if let Some(known) = KNOWN.iter().filter(fits).find(|known| canonical_splits(known.splits()) == splits) {
        return Some(known.name);
    }
    let rows = || byte_level().filter(|spelled| canonical_splits(&spelled.splits) == splits);
    let with_merges =
        |spelled: &&Spelling| spelled.row().is_some_and(|row| row.ignore_merges == ignore_merges);
    let row = rows().find(with_merges).or_else(|| rows().next())?;
    row.names.first().map(String::as_str)
}

/// `ignore_merges` of llama.cpp under this name.
pub(super) fn ignores_merges(name: &str) -> Option<bool> {
    by_name(name).map(|row| row.ignore_merges)
}

/// llama.cpp's expressions of the rows whose words are spelled in the byte alphabet.
fn byte_level() -> impl Iterator<Item = &'static Spelling> {
    spellings().iter().filter(|spelled| spelled.row().is_some_and(|row| !row.raw))
}

/// True if two names have the same expressions.
pub(super) fn same_steps(one: &str, other: &str) -> bool {
    let splits_of = |name: &str| spelling(name).map(canonical_splits);
    one == other || splits_of(one).is_some_and(|splits| splits_of(other) == Some(splits))
}

/// Known name with the most similar steps, and the differences.
pub(super) fn nearest(steps: &Steps) -> Option<(&'static str, String)> {
    let splits = canonical_splits(&steps.splits);
    let normalizes = |expected: &str| steps.normalizers.iter().any(|other| other == expected);
    let own = KNOWN.iter().filter(|known| known.normalizer.is_none_or(normalizes));
    let own = own.map(|known| (known.name, canonical_splits(known.splits())));
    let reference =
        byte_level().filter_map(|row| Some((row.names.first()?.as_str(), canonical_splits(&row.splits))));
    // The distance is the number of alternatives that only one of them has, step by step.
    own.chain(reference)
        .map(|(name, known)| {
            let (mut lacks, mut has) = (Vec::new(), Vec::new());
            for at in 0..splits.len().max(known.len()) {
                // For a missing step, all alternatives are missing.
                let (own, reference) = (splits.get(at), known.get(at));
                let missing = |from: Option<&Vec<String>>, of: Option<&Vec<String>>| -> Vec<String> {
                    let absent = |part: &&String| !of.is_some_and(|of| of.contains(part));
                    from.into_iter().flatten().filter(absent).cloned().collect()
                };
                lacks.extend(missing(reference, own));
                has.extend(missing(own, reference));
            }
            (name, lacks, has)
        })
        .min_by_key(|(_, lacks, has)| lacks.len() + has.len())
        .map(|(name, lacks, has)| {
            let list = |parts: &[String]| {
                parts.iter().map(|part| format!("`{part}`")).collect::<Vec<_>>().join(", ")
            };
            let mut difference = Vec::new();
            if !has.is_empty() {
                difference.push(format!("this has {}", list(&has)));
            }
            if !lacks.is_empty() {
                difference.push(format!("`{name}` has {}", list(&lacks)));
            }
            if difference.is_empty() {
                difference.push("the same alternatives in a different order or with different steps".into());
            }
            (name, difference.join("; "))
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pre::expressions::QWEN2;

    #[test]
    fn known_names_are_shipped() {
        for known in KNOWN {
            let row = by_name(known.name).unwrap();
            assert!(row.shipped.contains(&known.name), "{}", known.name);
            assert_eq!(known.splits().len(), row.steps_of_models().len(), "{}", known.name);
        }
    }

    #[test]
    fn every_row_is_reachable() {
        for known in KNOWN {
            let steps = Steps {
                splits: known.splits().into_iter().map(str::to_owned).collect(),
                byte_level: true,
                normalizers: known.normalizer.into_iter().map(str::to_owned).collect(),
                ..Steps::default()
            };
            assert_eq!(by_steps(&steps, known.ignore_merges.unwrap_or(false)), Some(known.name));
            assert_eq!(by_steps(&Steps { byte_level: false, ..steps }, false), None);
        }
        for row in byte_level() {
            let steps = Steps { splits: row.splits.clone(), byte_level: true, ..Steps::default() };
            let found = by_steps(&steps, row.row().unwrap().ignore_merges).unwrap_or_default();
            assert!(same_steps(found, &row.names[0]), "{}: {found}", row.names[0]);
        }
    }

    #[test]
    fn nearest_row_lists_differences() {
        let two = QWEN2.replace(r"]?\p{L}+", r"]?\p{L}{2}");
        let steps = Steps { splits: vec![two], byte_level: true, ..Steps::default() };
        assert_eq!(by_steps(&steps, false), None);
        let (name, difference) = nearest(&steps).unwrap();
        assert!(same_steps(name, "qwen2"), "{name}");
        assert_eq!(
            difference,
            format!(
                r"this has `[^\n\p{{L}}\p{{N}}\r]?\p{{L}}{{2}}`; `{name}` has `[^\n\p{{L}}\p{{N}}\r]?\p{{L}}+`"
            )
        );
        assert!(
            same_steps("gpt-2", "jina-v2-code") && !same_steps("gpt-2", "qwen2") && !same_steps("x", "y")
        );
    }
}
