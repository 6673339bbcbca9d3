//! Rows of all families: unique names, and an index that finds the same rows as a search in order.

use gguf_layout::Input;
use gguf_layout::tensors::rules::{self, TensorRule};
use gguf_layout::tensors::{Found, Index, SUFFIXES};
use gguf_models::{ARCHES, FAMILIES};

#[test]
fn rows_are_sorted_unique_and_lowercase() {
    let names: Vec<&str> = ARCHES.iter().map(|arch| arch.name).collect();
    assert!(names.is_sorted_by(|a, b| a < b), "{names:?}");
    // A class may have several rows, if all but one ask what else a config says.
    let unread_keys = || ARCHES.iter().filter(|arch| arch.fits.is_none());
    let mut classes: Vec<&str> =
        unread_keys().flat_map(|arch| arch.classes).map(|class| class.name).collect();
    let mut configs: Vec<&str> =
        unread_keys().flat_map(|arch| arch.configs).map(|class| class.model_type).collect();
    for list in [&mut classes, &mut configs] {
        let n = list.len();
        list.sort_unstable();
        list.dedup();
        assert_eq!(list.len(), n);
    }
    assert!(names.iter().all(|name| {
        name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_')
    }));
}

#[test]
fn classes_with_similar_names_are_found() {
    assert!(FAMILIES.find("MistalForCausalLM", &Input::default()).is_none());
    assert_eq!(FAMILIES.nearest_classes("MistalForCausalLM").first(), Some(&"MistralForCausalLM"));
}

/// Tries all rows in order: the reference for the index.
fn slow(table: &'static [&'static [TensorRule]], name: &str) -> Vec<Found> {
    let rules = || table.iter().flat_map(|part| part.iter());
    for suffix in [None].into_iter().chain(SUFFIXES.map(Some)) {
        let Some(base) = suffix.map_or(Some(name), |suffix| name.strip_suffix(suffix)) else { continue };
        let found: Vec<Found> = rules()
            .filter(|rule| rule.bare.is_some() == suffix.is_none())
            .filter_map(|rule| {
                let fits = |pattern: &&'static str| Some((*pattern, rules::parse(pattern, base)?));
                let (pattern, (bid, xid)) = rule.hf.iter().find_map(fits)?;
                Some(Found { rule, pattern, suffix: suffix.or(rule.bare)?, bid, xid })
            })
            .collect();
        if !found.is_empty() {
            return found;
        }
    }
    Vec::new()
}

fn spelled(all: &[Found]) -> Vec<(&'static str, &'static str, &'static str, u64, u64)> {
    all.iter().map(|found| (found.rule.gguf, found.pattern, found.suffix, found.bid, found.xid)).collect()
}

#[test]
fn index_matches_linear_search() {
    for arch in ARCHES {
        let index = Index::new(arch.tensors);
        for pattern in arch.rules().flat_map(|rule| rule.hf) {
            for part in pattern.split('.').filter(|part| part.contains('{')) {
                assert!(["{bid}", "{xid}"].contains(&part), "{}: `{pattern}`", arch.name);
            }
            for (bid, xid) in [(0, 0), (2, 0), (17, 3)] {
                let base = rules::fill(pattern, bid, xid);
                for ending in ["", ".weight", ".bias", ".scale"] {
                    let name = format!("{base}{ending}");
                    assert_eq!(
                        spelled(&index.find(&name)),
                        spelled(&slow(arch.tensors, &name)),
                        "{}: `{name}`",
                        arch.name
                    );
                }
            }
        }
    }
}
