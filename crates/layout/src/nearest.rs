//! Finds architectures whose tables match the tensors of a checkpoint of unknown class.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashSet};

use crate::SourceTensor;
use crate::arch::{Arch, Class};
use crate::registry::{Families, distance};
use crate::tensors::Index;
use crate::tensors::rules::{Need, TensorRule};

/// The three architectures whose tables have places for most of `tensors`, with the number of places. Equal numbers are ordered by
/// the `model_type` of the config, then by required tensors that the checkpoint lacks, then rows before their variants, then by the
/// similarity of the class name to `class`.
pub fn nearest_tables(
    families: &Families,
    class: &str,
    model_type: Option<&str>,
    tensors: &[SourceTensor],
) -> Vec<(&'static str, usize)> {
    let by_name = |arch: &Arch| {
        let nearest = arch.classes.iter().map(|known| distance(known.name, class)).min();
        // More edits than a name has.
        let variant = if arch.written.is_some() { 1000 } else { 0 };
        nearest.map_or(usize::MAX, |edits| edits.saturating_add(variant))
    };
    let is_other_type =
        |arch: &Arch| !arch.configs.iter().any(|config| Some(config.model_type) == model_type);
    let mut found: Vec<(Reverse<usize>, bool, usize, usize, &'static str)> = families
        .arches
        .iter()
        .filter_map(|arch| {
            let index = Index::new(arch.tensors);
            let fits = prefixes(arch).map(|prefix| fit(arch, &index, prefix, tensors));
            let (places, Reverse(absent)) = fits.max()?;
            // With fewer it is a coincidence: norms and embeddings have few names.
            let is_near = places > 0 && places.saturating_mul(4) >= tensors.len();
            is_near.then(|| (Reverse(places), is_other_type(arch), absent, by_name(arch), arch.name))
        })
        .collect();
    found.sort_unstable();
    found.truncate(3);
    found.into_iter().map(|(places, _, _, _, name)| (name, places.0)).collect()
}

/// The fit of a class of an architecture: tensors with a place, then needed tensors that are present.
pub fn fit_of(arch: &Arch, class: Class, tensors: &[SourceTensor]) -> (usize, Reverse<usize>) {
    fit(arch, &Index::new(arch.tensors), class.prefix, tensors)
}

/// Name prefixes that the classes of an architecture leave out, without duplicates.
fn prefixes(arch: &Arch) -> impl Iterator<Item = &'static str> {
    let prefixes: BTreeSet<&str> = arch.classes.iter().map(|class| class.prefix).collect();
    prefixes.into_iter()
}

/// Tensors with a place, and needed rows that no tensor meets.
fn fit(arch: &Arch, index: &Index, prefix: &str, tensors: &[SourceTensor]) -> (usize, Reverse<usize>) {
    let mut met: HashSet<*const TensorRule> = HashSet::new();
    let mut places = 0;
    for tensor in tensors {
        // Renames of the architecture are not applied: they depend on its config, which is not known to
        // be one.
        let name = format!("{prefix}{}", tensor.name).replace("language_model.", "");
        let found = index.find(&name);
        places += usize::from(!found.is_empty());
        met.extend(found.iter().map(|found| std::ptr::from_ref(found.rule)));
    }
    // A table that needs much of what is not there fits worse than one that is met completely.
    let needed = arch.rules().filter(|rule| matches!(rule.need, Need::Always));
    let absent = needed.filter(|rule| !met.contains(&std::ptr::from_ref(*rule))).count();
    (places, Reverse(absent))
}
