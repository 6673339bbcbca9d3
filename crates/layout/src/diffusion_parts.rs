//! Missing and unknown tensors of diffusion models, by names only: ComfyUI counts blocks up to the first gap and ignores tensors
//! that it does not know.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use gguf_types::{counted, list_names};

use crate::diffusion::{Diffusion, block_of};

/// Blocks that a list has at least, before its blocks are compared.
const MIN_BLOCKS: usize = 3;

/// Names in each block of a list, without the name of the block.
type Blocks<'a> = BTreeMap<u32, BTreeSet<&'a str>>;

/// Faults of a model with tensors named like this, a sentence each: gaps in lists of blocks, blocks that lack tensors of the others,
/// and missing first and last layers.
pub fn incomplete<'a>(row: &Diffusion, names: impl Iterator<Item = &'a str> + Clone) -> Vec<String> {
    let mut lists: BTreeMap<&str, Blocks<'_>> = BTreeMap::new();
    for (list, number, rest) in names.clone().filter_map(block_of) {
        lists.entry(list).or_default().entry(number).or_default().insert(rest);
    }
    let mut faults = Vec::new();
    for (list, blocks) in &lists {
        if let Some((number, _)) = (0u32..).zip(blocks.keys()).find(|(expected, found)| expected != *found) {
            faults.push(format!("missing block `{list}.{number}`"));
        }
        if !row.uneven_blocks && blocks.len() >= MIN_BLOCKS {
            faults.extend(lacking(list, blocks));
        }
    }
    let has =
        |parts: &[String]| names.clone().any(|name| parts.iter().any(|part| name.contains(part.as_str())));
    let missing = row.ends.iter().filter(|parts| !has(parts));
    faults.extend(missing.map(|parts| format!("missing `{}`", parts[0])));
    faults
}

/// Blocks without a tensor that most blocks of the list have.
fn lacking(list: &str, blocks: &Blocks<'_>) -> Vec<String> {
    let mut n_of: HashMap<&str, usize> = HashMap::new();
    for name in blocks.values().flatten() {
        *n_of.entry(name).or_default() += 1;
    }
    let usual: BTreeSet<&str> =
        n_of.into_iter().filter(|(_, n)| *n > blocks.len() / 2).map(|(name, _)| name).collect();
    let fault = |(number, names): (&u32, &BTreeSet<&str>)| {
        let missing: Vec<String> =
            usual.difference(names).map(|name| format!("{list}.{number}.{name}")).collect();
        (!missing.is_empty()).then(|| format!("missing {}, which other blocks have", list_names(&missing)))
    };
    blocks.iter().filter_map(fault).collect()
}

/// A note about tensors whose first part no released model of the row has. Marks (`__x0__`) are not parts.
pub fn unknown_parts<'a>(row: &Diffusion, names: impl Iterator<Item = &'a str>) -> Option<String> {
    let first = |name: &'a str| name.split('.').next().unwrap_or(name);
    let mut unknown: BTreeMap<&str, usize> = BTreeMap::new();
    for part in names.map(first).filter(|part| !part.starts_with("__") && !row.knows_part(part)) {
        *unknown.entry(part).or_default() += 1;
    }
    if unknown.is_empty() || row.ends.is_empty() {
        return None;
    }
    let n: usize = unknown.values().sum();
    let parts: Vec<&str> = unknown.into_keys().collect();
    Some(format!(
        "{} under names that are not known for `{}`: {}",
        counted(n, "tensor"),
        row.name,
        list_names(&parts)
    ))
}
