//! Parses a model's name: `org/Base-7B-finetune-v1.0`.
//!
//! Source: `Metadata.get_model_id_components` and `Metadata.id_to_title` in `gguf-py/gguf/metadata.py`.

use std::sync::LazyLock;

use regex::Regex;

/// Parts of a model's name; missing parts are `None`.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct ModelId {
    /// All after the organization, as it was.
    pub full_name: Option<String>,
    /// All before the first slash.
    pub organization: Option<String>,
    /// The name of the family (`Llama-3.2`).
    pub basename: Option<String>,
    /// Kind of fine-tuning (`instruct`).
    pub finetune: Option<String>,
    /// `v1.0`.
    pub version: Option<String>,
    /// `8x7B`.
    pub size_label: Option<String>,
}

/// Possible kinds of a part of a name; several can apply at a time.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Kinds {
    basename: bool,
    size_label: bool,
    finetune: bool,
    version: bool,
    /// A quantization type, which has no place in the metadata.
    dtype: bool,
}

impl Kinds {
    fn count(self) -> usize {
        [self.basename, self.size_label, self.finetune, self.version, self.dtype]
            .iter()
            .filter(|kind| **kind)
            .count()
    }
}

/// Matches of complete parts, without regard to case.
struct Patterns {
    version: Regex,
    dtype: Regex,
    size: Regex,
    finetune: Regex,
    untitled: Regex,
}

static PATTERNS: LazyLock<Option<Patterns>> = LazyLock::new(|| {
    let whole = |pattern: &str| Regex::new(&format!("(?i)^(?:{pattern})$")).ok();
    Some(Patterns {
        version: whole(r"(v|iter)?\d+([.]\d+)*")?,
        dtype: whole(r"i?q\d(_\w)*|b?fp?(16|32)")?,
        size: whole(r"([A]|\d+[x])?\d+([._]\d+)?[KMBT][\d]?|small|mini|medium|large|x?xl")?,
        finetune: whole(r"chat|instruct|vision|lora")?,
        untitled: Regex::new(r"^(?:v\d+(?:\.\d+)*|\d.*)$").ok()?,
    })
});

impl ModelId {
    /// Takes a name apart. `total_params` is the model's number of parameters, against which
    /// sizes in the name are checked; 0 if unknown, negative for adapters.
    pub fn parse(model_id: &str, total_params: i64) -> ModelId {
        // `Metadata.get_model_id_components` stops here as well.
        if model_id.contains(' ') {
            // A sentence is a name and only this.
            return ModelId { full_name: Some(model_id.into()), ..ModelId::default() };
        }
        let (organization, full_name) = match model_id.split_once('/') {
            // `./name` is a path.
            Some((org, name)) => (Some(org).filter(|org| !org.starts_with('.')), name),
            None => (None, model_id),
        };
        let mut id = ModelId {
            full_name: Some(full_name.into()),
            organization: organization.map(str::to_owned),
            ..ModelId::default()
        };
        let Some(patterns) = PATTERNS.as_ref() else { return id };
        let mut parts: Vec<(String, Kinds)> = full_name
            .split('-')
            .filter(|part| !part.is_empty())
            .enumerate()
            .map(|(i, part)| patterns.annotate(i, part, total_params))
            .collect();
        drop_word_sizes(&mut parts);
        mark_basename(&mut parts);

        let join = |matches: fn(Kinds) -> bool| {
            let names: Vec<&str> =
                parts.iter().filter(|(_, kinds)| matches(*kinds)).map(|(part, _)| part.as_str()).collect();
            (!names.is_empty()).then(|| names.join("-"))
        };
        id.basename = join(|kinds| kinds.basename);
        id.finetune = join(|kinds| kinds.finetune);
        id.version = join(|kinds| kinds.version && !kinds.basename);
        let mut sizes: Vec<&str> = Vec::new();
        for (part, _) in parts.iter().filter(|(_, kinds)| kinds.size_label) {
            if !sizes.contains(&part.as_str()) {
                sizes.push(part);
            }
        }
        id.size_label = (!sizes.is_empty()).then(|| sizes.join("-"));
        if id.size_label.is_none() && id.finetune.is_none() && id.version.is_none() {
            // Nothing in the name says where its base ends.
            id.basename = None;
        }
        id
    }
}

impl Patterns {
    /// Possible kinds of part `i`, and its spelling.
    fn annotate(&self, i: usize, part: &str, total_params: i64) -> (String, Kinds) {
        let mut kinds = Kinds::default();
        // The order of the tests matters: `v1` could be a finetune, `7` a version or a size. The first match
        // wins.
        if self.version.is_match(part) {
            kinds.version = true;
        } else if self.dtype.is_match(part) {
            kinds.dtype = true;
            return (part.to_uppercase(), kinds);
        } else if i > 0 && self.size.is_match(part) {
            let mut part = spell_size(part);
            // A size that contradicts the number of parameters is ignored: `4k` in `phi-3-mini-4k` is a
            // length.
            if total_params != 0 && !size_is_plausible(&part, total_params) {
                // Likely the length of a context.
                kinds.finetune = true;
                let last = part.pop().map(|last| last.to_lowercase().collect::<String>());
                part.extend(last);
            } else {
                kinds.size_label = true;
            }
            return (part, kinds);
        } else if i > 0 && self.finetune.is_match(part) {
            if total_params < 0 && part.eq_ignore_ascii_case("lora") {
                kinds.dtype = true;
            } else {
                kinds.finetune = true;
            }
        }
        (part.to_owned(), kinds)
    }
}

/// `7b` as `7B`, `1_5b` as `1.5B`, `7b1` as `7.1b`.
fn spell_size(part: &str) -> String {
    let mut letters: Vec<char> = part.replace('_', ".").chars().collect();
    // `7b1` (BLOOM) means 7.1 billion.
    if let [.., unit, digit] = letters[..]
        && digit.is_ascii_digit()
    {
        letters.truncate(letters.len() - 2);
        letters.extend(['.', digit, unit]);
    }
    if let [.., digit, unit] = &mut letters[..]
        && digit.is_ascii_digit()
        && "kmbt".contains(*unit)
    {
        unit.make_ascii_uppercase();
    }
    letters.into_iter().collect()
}

/// True if a size in a name can be this model's number of parameters: at least an eighth, and for complete
/// models less than about twice. Words and products (`small`, `8x7B`) cannot be checked.
fn size_is_plausible(part: &str, total_params: i64) -> bool {
    let mut digits = part.chars();
    // `1000 ** " KMBT".find(unit)` of the reference, written out.
    let power = match digits.next_back() {
        Some('K') => 1e3,
        Some('M') => 1e6,
        Some('B') => 1e9,
        Some('T') => 1e12,
        Some(' ') => 1.0,
        // Result of Python's `find` for a missing letter: 1000 to the power of -1.
        _ => 1e-3,
    };
    let Ok(number) = digits.as_str().parse::<f64>() else { return true };
    let (size, total) = (number * power, total_params.unsigned_abs() as i128);
    // For an adapter the number is that of the changed matrices; the entire model may be larger.
    if total_params < 0 {
        size >= (total / 8) as f64
    } else {
        (size - total as f64).abs() <= (7 * total / 8) as f64
    }
}

/// If some size has digits, sizes in words are dropped.
fn drop_word_sizes(parts: &mut [(String, Kinds)]) {
    let has_digit = |part: &str| part.chars().any(|c| c.is_ascii_digit());
    // `Llama-3-8B-mini`: the 8B is the size, mini a part of the name.
    if parts.iter().any(|(part, kinds)| kinds.size_label && has_digit(part)) {
        for (part, kinds) in parts {
            if part.chars().all(char::is_alphabetic) {
                kinds.size_label = false;
            }
        }
    }
}

/// The base name is all parts at the start that are words or versions; versions at its end do
/// not belong to it. Remaining parts after it are the finetune.
fn mark_basename(parts: &mut [(String, Kinds)]) {
    let mut at_start = true;
    for (part, kinds) in parts.iter_mut() {
        let is_word = kinds.count() == 0 && part.starts_with(char::is_alphabetic);
        if at_start && (is_word || kinds.version) {
            kinds.basename = true;
        } else {
            at_start = false;
            if kinds.count() == 0 {
                kinds.finetune = true;
            }
        }
    }
    for (_, kinds) in parts.iter_mut().rev() {
        if kinds.basename && kinds.count() > 1 {
            kinds.basename = false;
        } else {
            break;
        }
    }
}

/// A name for people: dashes become spaces, words in lower case get a capital, versions and
/// what starts with a digit stay.
pub fn title(name: &str) -> String {
    let untitled = |word: &str| PATTERNS.as_ref().is_none_or(|patterns| patterns.untitled.is_match(word));
    let dashless = name.trim().replace('-', " ");
    let words = dashless.split_whitespace().map(|word| {
        // `instruct` becomes Instruct, `LLaMA` and `v1.5` stay.
        let is_lower = word.chars().any(char::is_lowercase) && !word.chars().any(char::is_uppercase);
        if is_lower && !untitled(word) { capitalize(word) } else { word.to_owned() }
    });
    words.collect::<Vec<_>>().join(" ")
}

/// The first letter of each run of letters in upper case, as Python's `str.title`.
fn capitalize(word: &str) -> String {
    let mut after_letter = false;
    let mut out = String::with_capacity(word.len());
    for c in word.chars() {
        if after_letter {
            out.extend(c.to_lowercase());
        } else {
            // Where a capital is several letters (that of sharp s), only the first is one.
            let mut capital = c.to_uppercase();
            out.extend(capital.next());
            out.extend(capital.flat_map(char::to_lowercase));
        }
        after_letter = c.is_alphabetic();
    }
    out
}
