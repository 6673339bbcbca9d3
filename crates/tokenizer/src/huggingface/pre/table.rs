//! The pre-tokenizers that llama.cpp has, with the expressions that each stands for.
//!
//! Several names share expressions and differ in something else; each row says in what. The
//! first row that fits is taken. Every name that llama.cpp loads is in its own table
//! ([`loaded`]), with its own spelling of the expressions.
//!
//! Source: `llm_tokenizer_bpe` and `llama_vocab::impl::load` in `src/llama-vocab.cpp`, whose
//! comments keep the expressions as the models' tokenizer.json has them.

use std::sync::OnceLock;

use serde::Deserialize;

use super::canon::canonical;
use super::expressions::{
    BAILING, CJK, DEEPSEEK3, DIGIT, DIGITS3, EXAONE_MOE, GPT2, GPT4O, JAIS2, LLAMA3, MINICPM5, QWEN2, QWEN35,
    SEED_CODER, TEKKEN, UFAKZEKA,
};
use super::steps::Steps;

/// A pre-tokenizer.
struct Known {
    /// Name in `tokenizer.ggml.pre`.
    name: &'static str,
    /// Its expressions, in order.
    splits: &'static [&'static str],
    /// True if words that are tokens are taken whole; `None` if the name does not determine it.
    ignore_merges: Option<bool>,
    /// The normalizer that distinguishes it from the next row with the same expressions.
    normalizer: Option<&'static str>,
}

const fn known(name: &'static str, splits: &'static [&'static str]) -> Known {
    Known { name, splits, ignore_merges: None, normalizer: None }
}

const KNOWN: &[Known] = &[
    known("gpt-2", &[GPT2]),
    Known { normalizer: Some("NFC"), ..known("command-r", &[DIGIT, GPT2]) },
    known("smollm", &[DIGIT, GPT2]),
    Known { ignore_merges: Some(true), ..known("llama-bpe", &[LLAMA3]) },
    known("smaug-bpe", &[LLAMA3]),
    known("qwen2", &[QWEN2]),
    known("qwen35", &[QWEN35]),
    known("gpt-4o", &[GPT4O]),
    known("tekken", &[TEKKEN]),
    known("deepseek-v3", &[DIGITS3, CJK, DEEPSEEK3]),
    known("jais-2", &[JAIS2]),
    known("bailingmoe", &[BAILING]),
    known("seed-coder", &[SEED_CODER]),
    known("exaone-moe", &[EXAONE_MOE]),
    Known { ignore_merges: Some(true), ..known("minicpm5", &[DIGITS3, MINICPM5]) },
    known("ufakzeka", &[UFAKZEKA]),
];

/// A row of llama.cpp's own table.
#[derive(Debug, Deserialize)]
pub(super) struct Loaded {
    /// Names that mean the same.
    pub names: Vec<String>,
    /// The expressions by which llama.cpp splits, in order.
    pub splits: Vec<String>,
    /// True if words that are tokens are taken whole.
    pub ignore_merges: bool,
    /// True if words are spelled in the byte alphabet.
    pub byte_level: bool,
}

/// llama.cpp's table: all of its names, with the expressions that each stands for.
pub(super) fn loaded() -> &'static [Loaded] {
    static TABLE: OnceLock<Vec<Loaded>> = OnceLock::new();
    TABLE.get_or_init(|| {
        let lines = include_str!("expressions.txt").lines().filter(|line| !line.starts_with('#'));
        // A test reads every line.
        lines.filter_map(|line| serde_json::from_str(line).ok()).collect()
    })
}

/// Expressions of a name, as the models spell them or else as llama.cpp does, and whether words that are
/// tokens are taken whole. `None` for a name that is unknown, not byte-level, or implemented as code in
/// llama.cpp.
pub(crate) fn splits_of(name: &str) -> Option<(Vec<&'static str>, bool)> {
    // Kimi's expression stands for a function (`unicode_regex_split_custom_kimi_k2`).
    let row = loaded().iter().find(|row| row.names.iter().any(|other| other == name));
    let row = row.filter(|row| row.byte_level && name != "kimi-k2")?;
    let own = KNOWN.iter().find(|known| known.name == name);
    let splits =
        own.map_or_else(|| row.splits.iter().map(String::as_str).collect(), |own| own.splits.to_vec());
    Some((splits, row.ignore_merges))
}

/// Splits in canonical spelling.
pub(super) fn canonical_splits(splits: impl IntoIterator<Item = impl AsRef<str>>) -> Vec<Vec<String>> {
    splits.into_iter().map(|split| canonical(split.as_ref())).collect()
}

/// The name for a normal form: a row of [`KNOWN`] to the letter, then one that means the same,
/// then a row of llama.cpp's table that means the same.
pub(super) fn by_steps(steps: &Steps, ignore_merges: bool) -> Option<&'static str> {
    if !steps.byte_level || !steps.other.is_empty() {
        return None;
    }
    let fits = |known: &&Known| {
        known.ignore_merges.is_none_or(|expected| expected == ignore_merges)
            && known.normalizer.is_none_or(|expected| steps.normalizers.iter().any(|other| other == expected))
    };
    let to_the_letter = |known: &&Known| known.splits.iter().eq(steps.splits.iter());
    if let Some(known) = KNOWN.iter().filter(to_the_letter).find(fits) {
        return Some(known.name);
    }
    let splits = canonical_splits(&steps.splits);
    if let Some(known) = KNOWN.iter().filter(fits).find(|known| canonical_splits(known.splits) == splits) {
        return Some(known.name);
    }
    let rows = || loaded().iter().filter(|row| row.byte_level && canonical_splits(&row.splits) == splits);
    let row = rows().find(|row| row.ignore_merges == ignore_merges).or_else(|| rows().next())?;
    row.names.first().map(String::as_str)
}

/// `ignore_merges` of llama.cpp under this name.
pub(super) fn ignores_merges(name: &str) -> Option<bool> {
    let row = loaded().iter().find(|row| row.names.iter().any(|other| other == name));
    row.map(|row| row.ignore_merges)
}

/// True if two names stand for the same expressions.
pub(super) fn same_steps(one: &str, other: &str) -> bool {
    let splits_of = |name: &str| {
        let row = loaded().iter().find(|row| row.names.iter().any(|other| other == name));
        row.map(|row| canonical_splits(&row.splits))
    };
    one == other || splits_of(one).is_some_and(|splits| splits_of(other) == Some(splits))
}

/// The known name whose steps are most like these, and in what they differ.
pub(super) fn nearest(steps: &Steps) -> Option<(&'static str, String)> {
    let splits = canonical_splits(&steps.splits);
    let normalizes = |expected: &str| steps.normalizers.iter().any(|other| other == expected);
    let own = KNOWN.iter().filter(|known| known.normalizer.is_none_or(normalizes));
    let own = own.map(|known| (known.name, canonical_splits(known.splits)));
    let reference = loaded().iter().filter(|row| row.byte_level);
    let reference =
        reference.filter_map(|row| Some((row.names.first()?.as_str(), canonical_splits(&row.splits))));
    // The distance counts alternatives that only one side has, step by step; the fewest are nearest.
    own.chain(reference)
        .map(|(name, known)| {
            let (mut lacks, mut has) = (Vec::new(), Vec::new());
            for at in 0..splits.len().max(known.len()) {
                // A step that one side lacks altogether has all its alternatives missing there.
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
    use std::collections::HashSet;

    use super::super::names::names;
    use super::*;

    #[test]
    fn table_names_are_unique() {
        let lines = include_str!("expressions.txt").lines().filter(|line| !line.starts_with('#')).count();
        assert_eq!(loaded().len(), lines);
        let mut seen = HashSet::new();
        for name in loaded().iter().flat_map(|row| &row.names) {
            assert!(seen.insert(name.as_str()), "{name}");
        }
        assert_eq!(seen, names().collect());
        assert_eq!(seen.len(), 91);
        for known in KNOWN {
            assert!(seen.contains(known.name), "{}", known.name);
        }
    }

    #[test]
    fn every_row_is_reachable() {
        for known in KNOWN {
            let steps = Steps {
                splits: known.splits.iter().map(|split| (*split).to_owned()).collect(),
                byte_level: true,
                normalizers: known.normalizer.into_iter().map(str::to_owned).collect(),
                ..Steps::default()
            };
            assert_eq!(by_steps(&steps, known.ignore_merges.unwrap_or(false)), Some(known.name));
            assert_eq!(by_steps(&Steps { byte_level: false, ..steps }, false), None);
        }
        for row in loaded().iter().filter(|row| row.byte_level) {
            let steps = Steps { splits: row.splits.clone(), byte_level: true, ..Steps::default() };
            let found = by_steps(&steps, row.ignore_merges).unwrap_or_default();
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
