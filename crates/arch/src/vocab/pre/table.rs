//! The pre-tokenizers that llama.cpp has, with the expressions that each stands for.
//!
//! Several names share expressions and differ in something else; each row says in what. The
//! first row that fits is taken. Names that are only ever found by their hash, because they mean
//! the same as another, are in [`SAME`].
//!
//! Source: `llm_tokenizer_bpe` and `llama_vocab::impl::load` in `src/llama-vocab.cpp`, whose
//! comments keep the expressions as the models' tokenizer.json has them.

use super::steps::Steps;

/// Byte-level BPE's own expression, which the tokenizer library uses where none is stated; [`Steps`]
/// writes it for `use_regex`.
pub(super) const GPT2: &str = r#"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"#;
/// Llama 3.
const LLAMA3: &str = r#"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"#;
/// Qwen 2: digits one by one.
pub(in super::super) const QWEN2: &str = r#"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"#;
/// Jais 2: whitespace in powers of two.
const JAIS2: &str = r#"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S)|\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1}"#;
/// Qwen 3.5: marks belong to letters.
const QWEN35: &str = r#"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"#;
/// Mistral's tekken: words change at a capital.
const TEKKEN: &str = r#"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"#;
/// GPT-4o.
const GPT4O: &str = r#"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"#;
/// DeepSeek: Han and kana apart.
const CJK: &str = "[\u{4e00}-\u{9fa5}\u{3040}-\u{309f}\u{30a0}-\u{30ff}]+";
/// DeepSeek 3, its third step.
const DEEPSEEK3: &str = r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"##;
/// Bailing.
const BAILING: &str = r#"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"#;
/// Seed coder.
const SEED_CODER: &str = r#"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+"#;
/// Exaone MoE: words with single spaces between.
const EXAONE_MOE: &str = r#"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+"#;
/// MiniCPM 5, its second step.
const MINICPM5: &str = r#"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"#;
/// Qwen 2 without the English contractions.
const UFAKZEKA: &str = r#"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"#;
/// One digit.
const DIGIT: &str = r"\p{N}";
/// Up to three digits.
const DIGITS3: &str = r"\p{N}{1,3}";

/// A pre-tokenizer.
struct Known {
    /// What `tokenizer.ggml.pre` calls it.
    name: &'static str,
    /// Its expressions, in order.
    splits: &'static [&'static str],
    /// Whether words that are tokens are taken whole: `None` if the name says nothing of that.
    ignore_merges: Option<bool>,
    /// The normalizer that tells it from the next row with the same expressions.
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

/// Names that stand for the expressions of a row of [`KNOWN`].
const SAME: &[(&str, &[&str])] = &[
    (
        "gpt-2",
        &[
            "phi-2",
            "jina-es",
            "jina-de",
            "gigachat",
            "jina-v2-es",
            "jina-v2-de",
            "a.x-4.0",
            "mellum",
            "modern-bert",
            "jina-v1-en",
            "jina-v2-code",
            "roberta-bpe",
            "mpt",
            "olmo",
            "jais",
            "trillion",
            "granite-docling",
            "exaone4",
        ],
    ),
    ("smollm", &["command-r", "starcoder", "refact", "codeshell", "exaone", "minerva-7b", "mellum2"]),
    (
        "llama-bpe",
        &[
            "smaug-bpe",
            "llama3",
            "llama-v3",
            "falcon3",
            "falcon-h1",
            "pixtral",
            "midm-2.0",
            "lfm2",
            "jina-v5-nano",
            "dbrx",
            "chatglm-bpe",
            "glm4",
            "glm5",
        ],
    ),
    (
        "qwen2",
        &["deepseek-r1-qwen", "kormo", "f2llmv2", "stablelm2", "hunyuan", "solar-open", "megrez", "grok-2"],
    ),
    ("gpt-4o", &["llama4", "kanana2", "talkie", "minimax-m2"]),
    ("deepseek-v3", &["hunyuan-dense", "joyai-llm", "hy_v4"]),
    ("bailingmoe", &["bailingmoe2", "llada-moe"]),
];

/// The name for a normal form.
pub(super) fn by_steps(steps: &Steps, ignore_merges: bool) -> Option<&'static str> {
    if !steps.byte_level || !steps.other.is_empty() {
        return None;
    }
    let fits = |known: &&Known| {
        known.splits.iter().eq(steps.splits.iter())
            && known.ignore_merges.is_none_or(|wanted| wanted == ignore_merges)
            && known.normalizer.is_none_or(|wanted| steps.normalizers.iter().any(|have| have == wanted))
    };
    KNOWN.iter().find(fits).map(|known| known.name)
}

/// Whether two names stand for the same expressions.
pub(super) fn same_steps(one: &str, other: &str) -> bool {
    let head = |name| {
        let row = SAME.iter().find(|(_, names)| names.contains(&name));
        row.map_or(name, |(head, _)| *head)
    };
    head(one) == head(other)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::super::names;
    use super::*;

    #[test]
    fn names_are_ones_that_llama_cpp_loads() {
        let loaded: HashSet<&str> = names().collect();
        assert_eq!(loaded.len(), 91);
        for name in KNOWN
            .iter()
            .map(|known| known.name)
            .chain(SAME.iter().flat_map(|(head, names)| names.iter().copied().chain([*head])))
        {
            assert!(loaded.contains(name), "{name}");
        }
    }

    #[test]
    fn every_row_is_reached_and_no_name_is_in_two_classes() {
        for known in KNOWN {
            let steps = Steps {
                splits: known.splits.iter().map(|split| (*split).to_owned()).collect(),
                byte_level: true,
                normalizers: known.normalizer.into_iter().map(str::to_owned).collect(),
                other: Vec::new(),
            };
            assert_eq!(by_steps(&steps, known.ignore_merges.unwrap_or(false)), Some(known.name));
            assert_eq!(by_steps(&Steps { byte_level: false, ..steps }, false), None);
        }
        let mut seen = HashSet::new();
        for name in SAME.iter().flat_map(|(_, names)| *names) {
            assert!(seen.insert(*name), "{name}");
        }
    }
}
