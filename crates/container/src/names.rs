//! The naming convention of GGUF files, parsed and printed.
//!
//! `<BaseName><SizeLabel><FineTune><Version><Encoding><Type><Shard>.gguf`, parts joined by dashes. Sources:
//! "GGUF Naming Convention" of the specification with its pattern; `gguf-py/gguf/utility.py`
//! (llama-cpp-python 0.3.36) for generated names.

use std::{fmt, sync::LazyLock};

use regex::Regex;

/// Kind of a file that is not a complete model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// An adapter, `LoRA` in file names.
    Lora,
    /// Only a vocabulary, `vocab` in file names.
    Vocab,
}

impl Kind {
    /// Component of the file name.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Lora => "LoRA",
            Kind::Vocab => "vocab",
        }
    }
}

/// Kind of a file that accompanies a model, recognized by its name's prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Sidecar {
    /// A projector, `mmproj-` in file names.
    Projector,
    /// MTP layers, `mtp-` in file names.
    Prediction,
}

impl Sidecar {
    /// All kinds.
    pub const ALL: [Sidecar; 2] = [Sidecar::Projector, Sidecar::Prediction];

    /// Prefix of the file name.
    pub const fn prefix(self) -> &'static str {
        match self {
            Sidecar::Projector => "mmproj-",
            Sidecar::Prediction => "mtp-",
        }
    }
}

/// Components of a file name that follows the convention.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileName {
    /// Set if the file accompanies a model.
    pub sidecar: Option<Sidecar>,
    /// `Mixtral`, `Hermes-2-Pro-Llama-3`.
    pub base_name: String,
    /// `8x7B`, `3.8B-ContextLength4k`.
    pub size_label: Option<String>,
    /// `instruct`.
    pub fine_tune: Option<String>,
    /// `v0.1`.
    pub version: String,
    /// `Q4_0`, `KQ2`.
    pub encoding: Option<String>,
    /// Set if the file is not a complete model.
    pub kind: Option<Kind>,
    /// Shard number, from 1, and number of shards.
    pub shard: Option<(u32, u32)>,
}

/// The specification's pattern. It excludes encodings that start with `LoRA` or `vocab` by a look-ahead; this
/// engine has no look-ahead, so the permitted words are spelled out. `\d` and `\w` of the specification's
/// language are ASCII.
static PATTERN: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let word = "[0-9A-Za-z_]*";
    // A word that differs from `prefix` at one of its letters, or ends before its end.
    let not = |prefix: &str| {
        prefix.bytes().rev().fold(String::new(), |rest, letter| {
            let other_chars: String = (b'0'..=b'z')
                .filter(|b| (b.is_ascii_alphanumeric() || *b == b'_') && *b != letter)
                .map(char::from)
                .collect();
            let through =
                if rest.is_empty() { String::new() } else { format!("|{}(?:{rest})?", char::from(letter)) };
            format!("[{other_chars}]{word}{through}")
        })
    };
    let first: String = (b'0'..=b'z')
        .filter(|b| (b.is_ascii_alphanumeric() || *b == b'_') && !b"Lv".contains(b))
        .map(char::from)
        .collect();
    let encoding = format!("[{first}]{word}|L(?:{})?|v(?:{})?", not("oRA"), not("ocab"));
    let pattern = format!(
        r"^(?<base>[A-Za-z0-9\s]*(?:-(?:[A-Za-z\s][A-Za-z0-9\s]*|[0-9\s]*))*)-(?:(?<size>(?:[0-9]+x)?(?:[0-9]+\.)?[0-9]+[A-Za-z](?:-[A-Za-z]+(?:[0-9]+\.)?[0-9]+[A-Za-z]+)?)(?:-(?<tune>[A-Za-z0-9\s-]+))?)?-(?<version>v[0-9]+(?:\.[0-9]+)*)(?:-(?<encoding>{encoding}))?(?:-(?<kind>LoRA|vocab))?(?:-(?<no>[0-9]{{5}})-of-(?<count>[0-9]{{5}}))?\.gguf$"
    );
    // The pattern is a constant that the tests below match, so it is always valid.
    Regex::new(&pattern).ok()
});

impl FileName {
    /// Parses a file name (without folder). `None` if it does not follow the convention: at least a base
    /// name, a size label and a version, and `.gguf`.
    pub fn parse(file_name: &str) -> Option<FileName> {
        let sidecar = Sidecar::ALL.into_iter().find(|sidecar| file_name.starts_with(sidecar.prefix()));
        let rest = sidecar.and_then(|sidecar| file_name.strip_prefix(sidecar.prefix())).unwrap_or(file_name);
        let parts = PATTERN.as_ref()?.captures(rest)?;
        let part = |name| parts.name(name).map(|part| part.as_str().to_owned());
        let number = |name| parts.name(name).and_then(|part| part.as_str().parse().ok());
        Some(FileName {
            sidecar,
            base_name: part("base")?,
            size_label: part("size"),
            fine_tune: part("tune"),
            version: part("version")?,
            encoding: part("encoding"),
            kind: parts.name("kind").map(|kind| match kind.as_str() {
                "LoRA" => Kind::Lora,
                _ => Kind::Vocab,
            }),
            shard: number("no").zip(number("count")),
        })
    }
}

impl fmt::Display for FileName {
    /// The file name, including `.gguf`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.sidecar.map_or("", Sidecar::prefix), self.base_name)?;
        // The pattern requires the dash even before a missing size label.
        match (&self.size_label, &self.fine_tune) {
            (None, _) => write!(f, "-")?,
            (Some(size), None) => write!(f, "-{size}")?,
            (Some(size), Some(tune)) => write!(f, "-{size}-{tune}")?,
        }
        write!(f, "-{}", self.version)?;
        if let Some(encoding) = &self.encoding {
            write!(f, "-{encoding}")?;
        }
        if let Some(kind) = self.kind {
            write!(f, "-{}", kind.name())?;
        }
        if let Some((no, count)) = self.shard {
            write!(f, "-{no:05}-of-{count:05}")?;
        }
        write!(f, ".gguf")
    }
}

/// Input of [`naming_convention`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NameParts<'a> {
    /// Name of the model; only used without a base name.
    pub model_name: Option<&'a str>,
    /// `general.basename`.
    pub base_name: Option<&'a str>,
    /// `general.finetune`.
    pub fine_tune: Option<&'a str>,
    /// `general.version`.
    pub version: Option<&'a str>,
    /// `general.size_label`.
    pub size_label: Option<&'a str>,
    /// The file type, in any case.
    pub output_type: Option<&'a str>,
    /// Set if the file is not a complete model.
    pub kind: Option<Kind>,
    /// Set if the file accompanies a model.
    pub sidecar: Option<Sidecar>,
}

/// File name, without `.gguf`, that the reference's converter generates from these parts. It is not checked
/// and need not parse as a [`FileName`].
///
/// Source: `naming_convention`.
pub fn naming_convention(parts: &NameParts<'_>) -> String {
    let dashed = |text: &str| text.trim().replace(' ', "-");
    let base = match parts.base_name.or(parts.model_name) {
        Some(name) => dashed(name).replace('/', "-"),
        None => "ggml-model".to_owned(),
    };
    let mut name = parts.sidecar.map_or("", Sidecar::prefix).to_owned() + &base;
    let size = parts.size_label.map(str::to_owned);
    let encoding = parts.output_type.map(|encoding| dashed(encoding).to_uppercase());
    let kind = parts.kind.map(|kind| kind.name().to_owned());
    let rest = [size, parts.fine_tune.map(dashed), parts.version.map(dashed), encoding, kind];
    for part in rest.into_iter().flatten() {
        name.push('-');
        name.push_str(&part);
    }
    name
}

/// Longest file name in bytes without `.gguf`. File systems allow 255; a shard number, the prefix of a sidecar and the
/// suffix of a temporary file need the rest.
const MAX_STEM_BYTES: usize = 200;

/// File name, including `.gguf`, for a model with these parts. It is [`naming_convention`]'s name made safe:
/// metadata is untrusted, and the name must stay in its folder and be valid on Linux, macOS and Windows.
///
/// Separators, characters that Windows forbids, control characters and invisible format characters become `-`. Leading
/// dots, dashes and blanks and trailing dots and blanks are removed, device names (`CON`, `COM1`) get a leading `_`,
/// and the longest parts are cut at a character boundary until the name has at most 200 bytes.
///
/// ```
/// use gguf_container::{NameParts, safe_file_name};
/// let parts = NameParts { base_name: Some("..\\..\\evil: 2"), output_type: Some("q4_0"), ..Default::default() };
/// assert_eq!(safe_file_name(&parts), "evil--2-Q4_0.gguf");
/// ```
///
/// Source of the rules: Microsoft, "Naming Files, Paths, and Namespaces".
pub fn safe_file_name(parts: &NameParts<'_>) -> String {
    let base = parts.base_name.or(parts.model_name).map(clean);
    // The convention trims the parts; a base name of separators only counts as missing.
    let mut cleaned =
        [base, parts.fine_tune.map(clean), parts.version.map(clean), parts.size_label.map(clean)];
    for part in &mut cleaned {
        *part = part.take().map(|text| text.trim_matches(is_edge).to_owned()).filter(|text| !text.is_empty());
    }
    let encoding = parts.output_type.map(clean);
    loop {
        let [base_name, fine_tune, version, size_label] = cleaned.each_ref().map(Option::as_deref);
        let output_type = encoding.as_deref();
        let safe =
            NameParts { model_name: None, base_name, fine_tune, version, size_label, output_type, ..*parts };
        let name = naming_convention(&safe);
        let longest = cleaned.iter_mut().flatten().max_by_key(|part| part.len());
        match longest {
            Some(part) if name.len() > MAX_STEM_BYTES && !part.is_empty() => {
                // Cut by the excess, so that one or two rounds are enough.
                let excess = name.len() - MAX_STEM_BYTES;
                let most = part.len().saturating_sub(excess).max(part.len() / 2);
                let end = part.char_indices().map(|(at, _)| at).take_while(|at| *at <= most).last();
                part.truncate(end.unwrap_or(0));
            }
            _ => return without_device_name(name.trim_end_matches(['.', ' '])) + ".gguf",
        }
    }
}

/// Replaces characters that can end a file name, leave its folder or disguise it.
fn clean(text: &str) -> String {
    let is_unsafe = |c: char| {
        matches!(c, '/' | '\\' | ':' | '*' | '?' | '"' | '<' | '>' | '|')
            || c.is_control()
            // Zero-width characters, line separators and marks that reverse the direction of text.
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
    };
    text.chars().map(|c| if is_unsafe(c) { '-' } else { c }).collect()
}

/// True for a character that a part of a name must not begin or end with. A leading dot hides a file, and a leading dash
/// looks like an option.
fn is_edge(c: char) -> bool {
    c.is_whitespace() || matches!(c, '.' | '-')
}

/// Adds `_` before a name that Windows treats as a device, with any extension.
fn without_device_name(name: &str) -> String {
    let stem = name.split('.').next().unwrap_or_default().trim_end().to_ascii_uppercase();
    let is_numbered = ["COM", "LPT"].iter().any(|device| {
        let number = stem.strip_prefix(device).unwrap_or_default();
        matches!(number, "0" | "1" | "2" | "3" | "4" | "5" | "6" | "7" | "8" | "9" | "¹" | "²" | "³")
    });
    let is_device =
        is_numbered || matches!(stem.as_str(), "CON" | "PRN" | "AUX" | "NUL" | "CONIN$" | "CONOUT$");
    if is_device { format!("_{name}") } else { name.to_owned() }
}

/// Size label of a model: `8x7B` with experts, else `135M`.
///
/// Counts are of parameters: of all tensors (negative if a LoRA makes that a guess), of those that all tokens
/// use, and of one expert.
///
/// Source: `size_label`.
pub fn size_label(total: i64, shared: i64, expert: i64, expert_count: u64) -> String {
    if expert_count > 0 {
        // Implausible counts saturate instead of wrapping.
        let size = shared.unsigned_abs().saturating_add(expert.unsigned_abs());
        format!("{expert_count}x{}", rounded_count(size, 2))
    } else {
        rounded_count(total.unsigned_abs(), 2)
    }
}

/// A number of parameters with a unit letter and at least `min_digits` digits: `1.1B`,
/// `135M`, `8.0B`.
///
/// Source: `model_weight_count_rounded_notation`. Python's format and ours both round the
/// exact binary value, ties to even; the scaling is the same product in f64.
pub fn rounded_count(count: u64, min_digits: usize) -> String {
    let (scale, letter) = match count {
        1_000_000_000_001.. => (1e-12, 'T'),
        1_000_000_001.. => (1e-9, 'B'),
        1_000_001.. => (1e-6, 'M'),
        _ => (1e-3, 'K'),
    };
    let scaled = count as f64 * scale;
    // A zero before the point does not count as a digit.
    let whole = format!("{}", scaled.round_ties_even());
    let n_digits = whole.trim_start_matches('0').len();
    let decimals = min_digits.saturating_sub(n_digits);
    format!("{scaled:.decimals$}{letter}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(name: &str) -> Option<[Option<String>; 6]> {
        FileName::parse(name).map(|parsed| {
            assert_eq!(parsed.to_string(), name);
            let shard = parsed.shard.map(|(no, count)| format!("{no}/{count}"));
            [
                Some(parsed.base_name),
                parsed.size_label,
                parsed.fine_tune,
                Some(parsed.version),
                parsed.encoding.or(parsed.kind.map(|kind| kind.name().to_owned())),
                shard,
            ]
        })
    }

    #[test]
    fn sidecar_names_are_parsed() {
        for (name, sidecar, base) in [
            ("mmproj-Qwen3-VL-4B-Instruct-v1.0-F16.gguf", Some(Sidecar::Projector), "Qwen3-VL"),
            ("mtp-Qwen3.gguf", None, ""),
            ("mtp-Qwen3-4B-v1.0-BF16.gguf", Some(Sidecar::Prediction), "Qwen3"),
            ("mmproj-4B-v1.gguf", None, ""),
        ] {
            let parsed = FileName::parse(name);
            let found = parsed.as_ref().map(|parsed| (parsed.sidecar, parsed.base_name.as_str()));
            assert_eq!(found, sidecar.map(|sidecar| (Some(sidecar), base)), "{name}");
            assert!(parsed.is_none_or(|parsed| parsed.to_string() == name));
        }
    }

    /// The specification's own table of examples.
    #[test]
    fn examples_of_the_specification() {
        let cases = [
            ("Mixtral-8x7B-v0.1-KQ2.gguf", ["Mixtral", "8x7B", "", "v0.1", "KQ2", ""]),
            ("Grok-100B-v1.0-Q4_0-00003-of-00009.gguf", ["Grok", "100B", "", "v1.0", "Q4_0", "3/9"]),
            ("Hermes-2-Pro-Llama-3-8B-v1.0-F16.gguf", ["Hermes-2-Pro-Llama-3", "8B", "", "v1.0", "F16", ""]),
            (
                "Phi-3-mini-3.8B-ContextLength4k-instruct-v1.0.gguf",
                ["Phi-3-mini", "3.8B-ContextLength4k", "instruct", "v1.0", "", ""],
            ),
        ];
        for (name, expected) in cases {
            let expected = expected.map(|part| (!part.is_empty()).then(|| part.to_owned()));
            assert_eq!(parts(name), Some(expected), "{name}");
        }
        assert_eq!(parts("not-a-known-arrangement.gguf"), None);
        // Mentioned in the text without a version, which its pattern requires.
        assert_eq!(parts("Hermes-2-Pro-Llama-3-8B-F16.gguf"), None);
    }

    /// The pattern's look-ahead; expected values come from the specification's expression in an engine with
    /// look-ahead (`re` of CPython 3, group names respelled).
    #[test]
    fn types_and_encodings_are_parsed() {
        for (name, encoding, kind) in [
            ("A-1B-v1-LoRA.gguf", None, Some(Kind::Lora)),
            ("A-1B-v1-vocab.gguf", None, Some(Kind::Vocab)),
            ("A-1B-v1-Q4_K_M-LoRA.gguf", Some("Q4_K_M"), Some(Kind::Lora)),
            ("A-1B-v1-Lo.gguf", Some("Lo"), None),
            ("A-1B-v1-L.gguf", Some("L"), None),
            ("A-1B-v1-LoRa.gguf", Some("LoRa"), None),
            ("A-1B-v1-vocal.gguf", Some("vocal"), None),
            ("A-1B-v1-v.gguf", Some("v"), None),
            ("A-1B-v1-voca-vocab.gguf", Some("voca"), Some(Kind::Vocab)),
            ("A-1B-v1-_x9.gguf", Some("_x9"), None),
        ] {
            let parsed = FileName::parse(name).unwrap_or_else(|| panic!("{name}"));
            assert_eq!((parsed.encoding.as_deref(), parsed.kind), (encoding, kind), "{name}");
            assert_eq!(parsed.to_string(), name);
        }
        for bad in [
            "A-1B-v1-LoRAx.gguf",
            "A-1B-v1-vocabulary.gguf",
            "A-1B-v1-Q4_0-1-of-2.gguf",
            "A-1B-v1.",
            "A-1B-v1.gguf ",
            "A-1B-v1-Q4.0.gguf",
            "A_B-1B-v1.gguf",
            "",
        ] {
            assert_eq!(FileName::parse(bad), None, "{bad}");
        }
        assert_eq!(FileName::parse("A--v2.gguf").map(|parsed| parsed.size_label), Some(None));
    }

    #[test]
    fn names_are_built_from_parts() {
        let parts = NameParts {
            model_name: Some("unused"),
            base_name: Some(" Smol LM/2 "),
            fine_tune: Some("In struct"),
            version: Some("v0.1"),
            size_label: Some("135M"),
            output_type: Some("q4_k_m"),
            kind: Some(Kind::Lora),
            sidecar: None,
        };
        assert_eq!(naming_convention(&parts), "Smol-LM-2-135M-In-struct-v0.1-Q4_K_M-LoRA");
        assert_eq!(naming_convention(&NameParts::default()), "ggml-model");
        let projector = NameParts { sidecar: Some(Sidecar::Projector), kind: None, ..parts };
        assert_eq!(naming_convention(&projector), "mmproj-Smol-LM-2-135M-In-struct-v0.1-Q4_K_M");
        let named =
            NameParts { model_name: Some("a/b c"), output_type: Some("{ftype}"), ..NameParts::default() };
        assert_eq!(naming_convention(&named), "a-b-c-{FTYPE}");
    }

    #[test]
    fn hostile_metadata_stays_in_folder() {
        let parts = |base, fine_tune| NameParts {
            base_name: Some(base),
            fine_tune,
            size_label: Some("3.0M"),
            output_type: Some("q4_0"),
            ..NameParts::default()
        };
        for (base, fine_tune, expected) in [
            ("Tiny", Some("chat v2"), "Tiny-3.0M-chat-v2-Q4_0.gguf"),
            ("a\\..\\..\\x:y*?\"<>|", None, "a-..-..-x-y-3.0M-Q4_0.gguf"),
            ("C:\\evil", None, "C--evil-3.0M-Q4_0.gguf"),
            ("foo", Some("/../../outside"), "foo-3.0M-outside-Q4_0.gguf"),
            ("../../etc/passwd", None, "etc-passwd-3.0M-Q4_0.gguf"),
            ("-f", None, "f-3.0M-Q4_0.gguf"),
            ("con\nnew\0", None, "con-new-3.0M-Q4_0.gguf"),
            ("con.x", None, "_con.x-3.0M-Q4_0.gguf"),
            ("model\u{202e}fugg", None, "model-fugg-3.0M-Q4_0.gguf"),
            ("..", None, "ggml-model-3.0M-Q4_0.gguf"),
        ] {
            assert_eq!(safe_file_name(&parts(base, fine_tune)), expected, "{base:?}");
        }
        let only = |base| NameParts { base_name: Some(base), ..NameParts::default() };
        assert_eq!(safe_file_name(&only("NUL")), "_NUL.gguf");
        assert_eq!(safe_file_name(&only("com1")), "_com1.gguf");
        assert_eq!(safe_file_name(&only("Com¹")), "_Com¹.gguf");
        assert_eq!(safe_file_name(&only("COMMON")), "COMMON.gguf");
        let version = NameParts { version: Some("v1. "), size_label: Some("a/b"), ..only("x") };
        assert_eq!(safe_file_name(&version), "x-a-b-v1.gguf");
    }

    #[test]
    fn long_names_are_truncated_before_type() {
        let long = "ä".repeat(400);
        let parts = NameParts {
            base_name: Some(&long),
            fine_tune: Some(&long),
            version: Some(&long),
            size_label: Some(&long),
            output_type: Some("q8_0"),
            ..NameParts::default()
        };
        let name = safe_file_name(&parts);
        assert!(name.len() <= 205 && name.len() > 150, "{} bytes", name.len());
        assert!(name.ends_with("-Q8_0.gguf"), "{name}");
    }
}
