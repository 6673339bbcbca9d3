//! Normal form of a pre-tokenizer: the expressions that split text, in order, and whether words are then
//! spelled in the byte alphabet.

use std::fmt;

use serde_json::Value as Json;

use super::super::hf::{step_type, steps};
use crate::pre::expressions::GPT2;

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Steps {
    /// Expressions, each of which splits the remaining text of the previous one; control characters are
    /// escaped.
    pub splits: Vec<String>,
    /// True if words are spelled in the byte alphabet.
    pub byte_level: bool,
    /// True if a text that does not start with a space gets one.
    pub space_first: bool,
    /// Types of normalizers, in order.
    pub normalizers: Vec<String>,
    /// Steps without a normal form, as in the file.
    pub other: Vec<String>,
}

impl Steps {
    /// The normal form of a normalizer and a pre-tokenizer.
    pub(super) fn of(normalizer: &Json, pre_tokenizer: &Json) -> Self {
        let mut found = Steps::default();
        // Only their types matter: no key of GGUF describes normalizers.
        let kinds = steps(normalizer).into_iter().map(step_type);
        found.normalizers =
            kinds.filter(|kind| !["", "Sequence"].contains(kind)).map(str::to_owned).collect();
        steps(pre_tokenizer).into_iter().for_each(|step| found.add(step));
        found
    }

    fn add(&mut self, step: &Json) {
        let flag = |name: &str, default| step.get(name).and_then(Json::as_bool).unwrap_or(default);
        match step_type(step) {
            "" | "Sequence" => {}
            // Splits by GPT-2's expression unless turned off, and spells the result in the byte alphabet.
            "ByteLevel" => {
                self.byte_level = true;
                self.space_first |= flag("add_prefix_space", true);
                if flag("use_regex", true) {
                    self.splits.push(GPT2.to_owned());
                }
            }
            // Digits have no expression in the file; these are equivalent to the library's code.
            "Digits" if flag("individual_digits", false) => self.splits.push(r"\p{N}".to_owned()),
            "Digits" => self.splits.push(r"\p{N}+".to_owned()),
            "Split" => match expression_of(step).filter(|expression| splits_only(step, expression)) {
                Some(expression) => self.splits.push(expression),
                None => self.other.push(step.to_string()),
            },
            // `is_punctuation` of the library: Unicode's punctuation and ASCII symbols.
            "Punctuation" if step.get("behavior").and_then(Json::as_str) == Some("Isolated") => {
                self.splits.push(r"[\p{P}\$\+<=>\^~\|`]".to_owned());
            }
            "Punctuation" if step.get("behavior").and_then(Json::as_str) == Some("Contiguous") => {
                self.splits.push(r"[\p{P}\$\+<=>\^~\|`]+".to_owned());
            }
            _ => self.other.push(step.to_string()),
        }
    }
}

/// Expression of a split: unchanged, or an escaped text.
fn expression_of(step: &Json) -> Option<String> {
    let pattern = step.get("pattern")?;
    if let Some(expression) = pattern.get("Regex") {
        return expression.as_str().map(escape_controls);
    }
    let text = pattern.get("String")?.as_str()?;
    let special = |c: char| "\\.+*?()|[]{}^$#&-~".contains(c);
    let escaped =
        text.chars().flat_map(|c| special(c).then_some('\\').into_iter().chain([c])).collect::<String>();
    Some(escape_controls(&escaped))
}

/// True if a split keeps all text: matches become separate pieces, or (inverted, for expressions that match
/// everything, so end with any whitespace) the non-matches are removed.
fn splits_only(step: &Json, expression: &str) -> bool {
    let inverted = step.get("invert").and_then(Json::as_bool).unwrap_or(false);
    match step.get("behavior").and_then(Json::as_str) {
        Some("Isolated") => true,
        Some("Removed") => inverted && [r"|\s+", r"|\s"].iter().any(|end| expression.ends_with(end)),
        _ => false,
    }
}

/// Escapes line ends, which files spell as characters or as escapes.
fn escape_controls(expression: &str) -> String {
    expression.replace('\r', r"\r").replace('\n', r"\n").replace('\t', r"\t")
}

impl fmt::Display for Steps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts: Vec<String> = self.splits.iter().map(|split| format!("`{split}`")).collect();
        parts.extend(self.other.iter().map(|other| format!("`{other}`")));
        if self.byte_level {
            parts.push("bytes".to_owned());
        }
        if parts.is_empty() {
            parts.push("nothing".to_owned());
        }
        f.write_str(&parts.join(", then "))?;
        if !self.normalizers.is_empty() {
            write!(f, ", after {}", self.normalizers.join(", "))?;
        }
        Ok(())
    }
}
