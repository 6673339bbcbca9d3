//! The patterns of a table, made ready so that a tensor finds its rows with one look-up.
//!
//! A checkpoint of many experts has 100,000 tensors and more, a table 50 patterns; trying all on each
//! would take longer than everything else that resolves a model. In names and in patterns the numbers that
//! may be a layer or an expert are complete parts between dots, so the *skeleton* of a name, its parts with `#`
//! for only digits, is the key under which its patterns are found:
//!
//! ```text
//! model.layers.17.mlp.experts.3.up_proj        -> model.layers.#.mlp.experts.#.up_proj
//! model.layers.{bid}.mlp.experts.{xid}.up_proj -> model.layers.#.mlp.experts.#.up_proj
//! ```

use std::collections::HashMap;

use super::rules::{self, TensorRule};

/// Endings that the patterns of a table leave out.
pub const SUFFIXES: [&str; 2] = [".weight", ".bias"];

/// A bias whose name in a checkpoint does not end as one, and its name in tables.
pub const CORRECTION_BIAS: (&str, &str) = ("e_score_correction_bias", "e_score_correction.bias");

/// A source tensor's place in the table.
#[derive(Clone, Copy)]
pub struct Found {
    /// The row.
    pub rule: &'static TensorRule,
    /// The name of the rule that fits.
    pub pattern: &'static str,
    /// Its ending in the file.
    pub suffix: &'static str,
    /// The layer.
    pub bid: u64,
    /// The expert.
    pub xid: u64,
}

/// The rows of a table by the skeletons of their names.
pub struct Index {
    /// Rows whose names leave out `.weight` and `.bias`.
    with_ending: HashMap<String, Vec<Entry>>,
    /// Rows with complete names.
    whole: HashMap<String, Vec<Entry>>,
}

struct Entry {
    rule: &'static TensorRule,
    /// One of the names of the rule.
    pattern: &'static str,
}

impl Index {
    /// The index of a table.
    pub fn new(table: &'static [&'static [TensorRule]]) -> Index {
        let mut index = Index { with_ending: HashMap::new(), whole: HashMap::new() };
        // Entries of a skeleton keep the order of the table and of the names of a rule: where several fit,
        // it decides which comes first.
        for rule in table.iter().flat_map(|part| part.iter()) {
            let entries = if rule.bare.is_some() { &mut index.whole } else { &mut index.with_ending };
            for pattern in rule.hf {
                let skeleton = skeleton(pattern, |part| part.starts_with('{') || is_number(part));
                entries.entry(skeleton).or_default().push(Entry { rule, pattern });
            }
        }
        index
    }

    /// The rows that a name fits, each with the first of its names that does. Whole names win over those
    /// with an ending: RWKV's biases without an ending are weights of another name.
    pub fn find(&self, name: &str) -> Vec<Found> {
        let skeleton = skeleton(name, is_number);
        let whole = fitting(self.whole.get(&skeleton), name, None);
        if !whole.is_empty() {
            return whole;
        }
        let stripped = SUFFIXES
            .into_iter()
            .find_map(|suffix| Some((suffix, name.strip_suffix(suffix)?, skeleton.strip_suffix(suffix)?)));
        match stripped {
            Some((suffix, name, skeleton)) => fitting(self.with_ending.get(skeleton), name, Some(suffix)),
            None => Vec::new(),
        }
    }
}

/// The rows among `entries` that `name` fits. `suffix` is the ending that was taken off it; without one the
/// rule says the ending in the file.
fn fitting(entries: Option<&Vec<Entry>>, name: &str, suffix: Option<&'static str>) -> Vec<Found> {
    let mut found: Vec<Found> = Vec::new();
    for entry in entries.into_iter().flatten() {
        if found.last().is_some_and(|last| std::ptr::eq(last.rule, entry.rule)) {
            continue;
        }
        // The skeleton does not tell a number of the pattern from a layer: the pattern decides.
        let numbers = rules::parse(entry.pattern, name);
        if let (Some((bid, xid)), Some(suffix)) = (numbers, suffix.or(entry.rule.bare)) {
            found.push(Found { rule: entry.rule, pattern: entry.pattern, suffix, bid, xid });
        }
    }
    found
}

fn is_number(part: &str) -> bool {
    !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit())
}

/// A name with `#` for the parts between dots that `is_open` says are numbers.
fn skeleton(name: &str, is_open: impl Fn(&str) -> bool) -> String {
    let mut skeleton = String::with_capacity(name.len());
    for (at, part) in name.split('.').enumerate() {
        if at > 0 {
            skeleton.push('.');
        }
        skeleton.push_str(if is_open(part) { "#" } else { part });
    }
    skeleton
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn malformed_layer_numbers_match_nothing() {
        let index = Index::new(&[rules::PRE_NORMS]);
        assert_eq!(index.find("model.layers.7.input_layernorm.weight").len(), 1);
        for layer in ["07", "99999999999999999999999", "x", ""] {
            assert!(
                index.find(&format!("model.layers.{layer}.input_layernorm.weight")).is_empty(),
                "{layer}"
            );
        }
    }
}
