//! Which tables have places for the tensors of a checkpoint whose class nobody knows.

use std::cmp::Reverse;

use super::SUFFIXES;
use super::rules::{self, Need, TensorRule};
use crate::SourceTensor;
use crate::registry::{ARCHES, Arch};

/// The three architectures whose tables have places for the most of `tensors`, and for how many.
/// Of those that have equally many, the one comes first whose own needs are met best (a table
/// that has what the checkpoint has and nothing more), then the one with the lowest `distance`,
/// which compares names.
pub fn nearest_tables(
    tensors: &[SourceTensor],
    distance: impl Fn(&Arch) -> usize,
) -> Vec<(&'static str, usize)> {
    let mut found: Vec<(Reverse<usize>, usize, usize, &'static str)> = ARCHES
        .iter()
        .filter_map(|arch| {
            let (places, Reverse(absent)) = prefixes(arch).map(|prefix| fit(arch, prefix, tensors)).max()?;
            (places > 0).then(|| (Reverse(places), absent, distance(arch), arch.name))
        })
        .collect();
    found.sort_unstable();
    found.truncate(3);
    found.into_iter().map(|(places, _, _, name)| (name, places.0)).collect()
}

fn prefixes(arch: &Arch) -> impl Iterator<Item = &'static str> {
    arch.classes.iter().map(|class| class.prefix)
}

/// Tensors with a place, and needed rows that no tensor meets.
fn fit(arch: &Arch, prefix: &str, tensors: &[SourceTensor]) -> (usize, Reverse<usize>) {
    let rules: Vec<&TensorRule> = arch.tensors.iter().flat_map(|part| part.iter()).collect();
    let mut met = vec![false; rules.len()];
    let mut places = 0;
    for tensor in tensors {
        let name = format!("{prefix}{}", tensor.name).replace("language_model.", "");
        let mut has_place = false;
        for (rule, met) in rules.iter().zip(&mut met) {
            let whole = rule.bare.map(|_| name.as_str());
            let bases = SUFFIXES.iter().filter_map(|suffix| name.strip_suffix(suffix)).chain(whole);
            if bases.into_iter().any(|base| rule.hf.iter().any(|hf| rules::parse(hf, base).is_some())) {
                (has_place, *met) = (true, true);
            }
        }
        places += usize::from(has_place);
    }
    let absent =
        rules.iter().zip(met).filter(|(rule, met)| !met && matches!(rule.need, Need::Always)).count();
    (places, Reverse(absent))
}
