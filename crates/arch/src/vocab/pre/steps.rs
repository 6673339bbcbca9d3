//! What a pre-tokenizer does, in a normal form: the expressions by which text is split, in
//! order, and whether the words are then spelled in the byte alphabet.

use std::fmt;

use serde_json::Value as Json;

use super::table::GPT2;

/// The normal form.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Steps {
    /// Expressions, each splitting what the one before left; control characters are escaped.
    pub splits: Vec<String>,
    /// Whether words are spelled in the byte alphabet.
    pub byte_level: bool,
    /// Types of normalizers, in order.
    pub normalizers: Vec<String>,
    /// Steps that have no normal form yet, as they are in the file.
    pub other: Vec<String>,
}

impl Steps {
    /// The normal form of a normalizer and a pre-tokenizer.
    pub(super) fn of(normalizer: &Json, pre_tokenizer: &Json) -> Self {
        let mut steps = Steps::default();
        steps.add_normalizer(normalizer);
        steps.add(pre_tokenizer);
        steps
    }

    fn add_normalizer(&mut self, normalizer: &Json) {
        match kind(normalizer) {
            "" => {}
            "Sequence" => list(normalizer, "normalizers").iter().for_each(|step| self.add_normalizer(step)),
            kind => self.normalizers.push(kind.to_owned()),
        }
    }

    fn add(&mut self, step: &Json) {
        let flag = |name: &str, default| step.get(name).and_then(Json::as_bool).unwrap_or(default);
        match kind(step) {
            "" => {}
            "Sequence" => list(step, "pretokenizers").iter().for_each(|step| self.add(step)),
            "ByteLevel" => {
                self.byte_level = true;
                if flag("use_regex", true) {
                    self.splits.push(GPT2.to_owned());
                }
            }
            "Digits" if flag("individual_digits", false) => self.splits.push(r"\p{N}".to_owned()),
            "Digits" => self.splits.push(r"\p{N}+".to_owned()),
            "Split" if splits_only(step) => {
                match step.get("pattern").and_then(|pattern| pattern.get("Regex")) {
                    Some(Json::String(expression)) => self.splits.push(escape_controls(expression)),
                    _ => self.other.push(step.to_string()),
                }
            }
            _ => self.other.push(step.to_string()),
        }
    }
}

/// Whether a split keeps all of the text: matches stand alone, or (said the other way round, for
/// expressions that match everything) what does not match is removed.
fn splits_only(step: &Json) -> bool {
    let inverted = step.get("invert").and_then(Json::as_bool).unwrap_or(false);
    match step.get("behavior").and_then(Json::as_str) {
        Some("Isolated") => true,
        Some("Removed") => inverted,
        _ => false,
    }
}

/// The `type` of a step; nothing where there is no step.
fn kind(step: &Json) -> &str {
    step.get("type").and_then(Json::as_str).unwrap_or("")
}

fn list<'a>(step: &'a Json, key: &str) -> &'a [Json] {
    step.get(key).and_then(Json::as_array).map_or(&[], Vec::as_slice)
}

/// Files spell line ends in expressions as the characters themselves or as escapes.
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
