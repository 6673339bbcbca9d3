//! Prunes layers and renumbers the rest.
//!
//! Source: `remap_layer` and its use in `llama_model_quantize_impl`, `src/llama-quant.cpp` of llama.cpp as
//! vendored in llama-cpp-python 0.3.36.

use std::collections::{BTreeMap, BTreeSet};

use gguf_container::{Array, Metadata, Value};
use gguf_layout::{
    Families,
    loader::{Positions, positions},
};

use crate::Error;

/// Keys that count the first layers.
const LEADING: [&str; 5] = [
    "leading_dense_block_count",
    "hash_layer_count",
    "decoder_block_count",
    "encoder.block_count",
    "decoder.block_count",
];
/// Keys that count the last layers.
const TRAILING: [&str; 2] = ["nextn_predict_layers", "attention.shared_kv_layers"];
/// Key with a list of layer numbers.
const LAYER_NUMBERS: &str = "ple.layers";
/// Prefixes and suffixes of keys whose lists are not per layer, even if the lengths match.
const OTHER_LISTS: [&str; 3] = ["sections", "output_labels", "target_layers"];
const OTHER_GROUPS: [&str; 2] = ["ple.", "adapters."];
/// Groups of keys, without the architecture's name, whose lists are per layer.
const LAYER_GROUPS: [&str; 1] = ["xielu."];
/// A tensor that one layer stores for all layers, unless each layer has its own: relative positions of T5.
const OF_ALL_LAYERS: &str = ".attn_rel_b.weight";
/// Maximum number of layers whose positions are compared; llama.cpp allows 512.
const MAX_LAYERS: u32 = 1024;

/// New numbers of a model's layers; `None` for pruned layers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pruning {
    layers: BTreeMap<u32, Option<u32>>,
    /// Tensors that serve all layers and whose own layer is pruned, with their new layer.
    moved: BTreeMap<String, u32>,
    first_pruned: u32,
    n_left: u32,
}

/// Position and number of the first `blk.N.` in a name. Any prefix may precede it.
fn layer_in(name: &str) -> Option<(std::ops::Range<usize>, u32)> {
    // The first `blk.` that is followed by digits and a point: `v.blk.10.x` of an image encoder counts,
    // `blk.y.z` does not.
    name.match_indices("blk.").find_map(|(at, found)| {
        let start = at + found.len();
        let digits = name[start..].bytes().take_while(u8::is_ascii_digit).count();
        let range = start..start + digits;
        name[range.end..].starts_with('.').then(|| Some((range.clone(), name[range].parse().ok()?)))?
    })
}

impl Pruning {
    /// Renumbers the layers of `names` that are not in `prune`.
    pub(crate) fn new<'a>(
        names: impl Iterator<Item = &'a str>,
        prune: &BTreeSet<u32>,
    ) -> Result<Option<Pruning>, Error> {
        if prune.is_empty() {
            return Ok(None);
        }
        // Layers are taken from tensor names, because some architectures count layers without tensors in the
        // metadata. Encoder and decoder of one file both number their layers from 0.
        let mut stacks: BTreeMap<&str, BTreeSet<u32>> = BTreeMap::new();
        let mut stack_tensors: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for name in names {
            let Some((range, layer)) = layer_in(name) else { continue };
            let stack = &name[..range.start];
            stacks.entry(stack).or_default().insert(layer);
            if name.ends_with(OF_ALL_LAYERS) {
                stack_tensors.entry(stack).or_default().push(name);
            }
        }
        let existing: BTreeSet<u32> = stacks.values().flatten().copied().collect();
        if let Some(&layer) = prune.difference(&existing).next() {
            return Err(Error::NoSuchLayer { layer, n_layers: existing.len() });
        }
        if let Some(stack) = stacks.values().find(|stack| stack.is_subset(prune)) {
            return Err(Error::NoLayerLeft { n_layers: stack.len() });
        }
        // The k-th remaining layer becomes layer k. The reference starts to count at the first pruned layer,
        // which matters if the input's numbers have gaps.
        let mut n_left = 0;
        let first_pruned = prune.first().copied().unwrap_or_default();
        let number = |layer: u32| {
            if prune.contains(&layer) {
                return (layer, None);
            }
            // Gaps before the first pruned layer stay.
            let number = if layer < first_pruned { layer } else { n_left };
            n_left = number + 1;
            (layer, Some(number))
        };
        let layers: BTreeMap<u32, Option<u32>> = existing.into_iter().map(number).collect();
        let moved = stack_tensors.into_iter().filter_map(|(stack, tensors)| {
            let [name] = tensors[..] else { return None };
            let first = stacks.get(stack)?.iter().find_map(|layer| layers.get(layer).copied().flatten())?;
            let (_, layer) = layer_in(name)?;
            prune.contains(&layer).then(|| (name.to_owned(), first))
        });
        let moved = moved.collect();
        Ok(Some(Pruning { layers, moved, first_pruned, n_left }))
    }

    /// The name with its layer's new number; `None` for a pruned layer.
    pub(crate) fn rename(&self, name: &str) -> Option<String> {
        let Some((range, layer)) = layer_in(name) else { return Some(name.to_owned()) };
        let number = self.moved.get(name).copied().or_else(|| self.layers.get(&layer).copied().flatten())?;
        Some(format!("{}{number}{}", &name[..range.start], &name[range.end..]))
    }

    /// True if a layer is kept. Layers without tensors are kept if they precede the first pruned layer.
    fn remains(&self, layer: u32) -> bool {
        layer < self.first_pruned || self.layers.get(&layer).is_some_and(Option::is_some)
    }

    /// Number of kept layers in a range.
    fn n_remaining(&self, range: std::ops::Range<u64>) -> u32 {
        let first = u64::from(self.first_pruned);
        let before = range.end.min(first).saturating_sub(range.start);
        let after = self.layers.iter().filter(|(layer, to)| {
            let layer = u64::from(**layer);
            layer >= first && range.contains(&layer) && to.is_some()
        });
        u32::try_from(before + after.count() as u64).unwrap_or(u32::MAX)
    }

    /// Updates the keys that count or place layers: numbers of layers, lists with one item per layer, lists
    /// of layer numbers, and periods that the remaining layers no longer follow. Returns the changes that no
    /// key can describe. (The reference changes only the number of layers.)
    pub(crate) fn describe(&self, families: &Families, metadata: &mut Metadata) -> Vec<String> {
        let architecture = metadata.get("general.architecture").and_then(Value::as_str);
        let Some(architecture) = architecture.map(str::to_owned) else { return Vec::new() };
        let old = metadata.clone();
        let key = |name: &str| format!("{architecture}.{name}");
        let number = |name: &str| old.get(&key(name)).and_then(Value::as_u64);
        let n_before = number("block_count");
        // Some lists exclude MTP layers.
        let n_trunk = n_before.map(|n| n.saturating_sub(number("nextn_predict_layers").unwrap_or(0)));
        for name in LEADING {
            if let Some(n) = number(name) {
                set_number(metadata, &key(name), self.n_remaining(0..n));
            }
        }
        let end =
            n_before.unwrap_or_else(|| self.layers.keys().next_back().map_or(0, |last| u64::from(*last) + 1));
        for name in TRAILING {
            if let Some(n) = number(name) {
                set_number(metadata, &key(name), self.n_remaining(end.saturating_sub(n)..end));
            }
        }
        let is_other = |name: &str| {
            OTHER_LISTS.iter().any(|end| name.ends_with(end))
                || OTHER_GROUPS.iter().any(|start| name.starts_with(start))
        };
        let prefix = key("");
        for (name, value) in metadata.iter_mut() {
            let in_group = LAYER_GROUPS.iter().any(|group| name.starts_with(group));
            let Some(name) = name.strip_prefix(&prefix).or(in_group.then_some(name)) else {
                continue;
            };
            let Value::Array(array) = value else { continue };
            let n_items = Some(array.len() as u64);
            if name == LAYER_NUMBERS {
                self.renumber(array);
            } else if (n_items == n_before || n_items == n_trunk) && !is_other(name) {
                self.thin(array);
            }
        }
        self.set_block_count(metadata, &architecture, &number);
        let mut lost = self.place(families, metadata, &architecture, &old, n_trunk.unwrap_or(0));
        lost.extend(self.lost_sources(&number, end));
        lost
    }

    fn set_block_count(
        &self,
        metadata: &mut Metadata,
        architecture: &str,
        number: &impl Fn(&str) -> Option<u64>,
    ) {
        let key = format!("{architecture}.block_count");
        // Whisper has a key for each stack.
        if number("block_count").is_none() && number("encoder.block_count").is_some() {
            return;
        }
        let mut n_left = self.n_left;
        // The number of layers is that of the encoder.
        if let Some(n) = number("block_count").filter(|_| number("decoder_block_count").is_some()) {
            n_left = self.n_remaining(0..n);
        }
        // Two stacks of equal height that run in cycles; the number of layers is that of all runs.
        if let Some((height, n)) =
            number("hrm.layers_per_stack").zip(number("block_count")).filter(|(height, _)| *height > 0)
        {
            let (low, high) =
                (self.n_remaining(0..height), self.n_remaining(height..2 * height.min(u64::MAX / 2)));
            if low == high {
                set_number(metadata, &format!("{architecture}.hrm.layers_per_stack"), low);
                n_left = u32::try_from(n / height * u64::from(low)).unwrap_or(u32::MAX);
            }
        }
        metadata.set_last(key, n_left);
    }

    /// Writes lists if periods do not fit the remaining layers, and returns the changes that no list can
    /// describe.
    fn place(
        &self,
        families: &Families,
        metadata: &mut Metadata,
        architecture: &str,
        old: &Metadata,
        n_trunk: u64,
    ) -> Vec<String> {
        let n_old = self.layers.keys().next_back().map_or(0, |last| last.saturating_add(1)).min(MAX_LAYERS);
        let remaining: Vec<u32> = (0..n_old).filter(|layer| self.remains(*layer)).collect();
        let (before, after) =
            (positions(families, old, n_old), positions(families, metadata, self.n_left.min(MAX_LAYERS)));
        let mut lost = Vec::new();
        for (property, was) in before {
            let now = values_of(&after, property);
            let value = |layer: u32| was.get(layer as usize).copied().flatten();
            let is_changed = |(new, layer): &(usize, &u32)| {
                let now = now.get(*new).copied().flatten();
                u64::from(**layer) < n_trunk && value(**layer).zip(now).is_some_and(|(was, now)| was != now)
            };
            let changed: Vec<String> =
                remaining.iter().enumerate().filter(is_changed).map(|(new, _)| new.to_string()).collect();
            if changed.is_empty() {
                continue;
            }
            let list: Option<Vec<bool>> =
                remaining.iter().map(|layer| value(*layer).map(|value| value != 0)).collect();
            match property.list_key(families, architecture).zip(list) {
                Some((key, list)) => {
                    metadata.set(format!("{architecture}.{key}"), Value::Array(Array::Bool(list)))
                }
                None => lost.push(format!(
                    "{} differs in {} {} of the pruned model: it depends on the position of the layer",
                    property.noun(),
                    if changed.len() == 1 { "layer" } else { "layers" },
                    changed.join(", ")
                )),
            }
        }
        lost
    }

    /// Pruned layers that other layers or images depend on.
    fn lost_sources(&self, number: &impl Fn(&str) -> Option<u64>, end: u64) -> Vec<String> {
        let is_removed = |layer: u64| u32::try_from(layer).is_ok_and(|layer| !self.remains(layer));
        let mut lost = Vec::new();
        if let Some(n) = number("attention.shared_kv_layers").filter(|n| *n > 0 && *n < end) {
            let sources = (end - n).saturating_sub(2)..end - n;
            let removed: Vec<String> =
                sources.filter(|layer| is_removed(*layer)).map(|layer| layer.to_string()).collect();
            if !removed.is_empty() && self.n_remaining(end - n..end) > 0 {
                lost.push(format!(
                    "the last layers use the keys and values of different layers: layer {} is pruned",
                    removed.join(" and ")
                ));
            }
        }
        if let Some(n) = number("n_deepstack_layers").filter(|n| u64::from(self.first_pruned) < *n) {
            lost.push(format!("image features of the first {n} layers go to different layers"));
        }
        lost
    }

    fn renumber(&self, array: &mut Array) {
        let new = |layer: u32| match self.layers.get(&layer) {
            Some(to) => *to,
            None => (layer < self.first_pruned).then_some(layer),
        };
        match array {
            Array::I32(items) => {
                let renumbered = |item: &i32| i32::try_from(new(u32::try_from(*item).ok()?)?).ok();
                *items = items.iter().filter_map(renumbered).collect();
            }
            Array::U32(items) => *items = items.iter().filter_map(|item| new(*item)).collect(),
            _ => {}
        }
    }

    fn thin(&self, array: &mut Array) {
        let remains = |index: usize| u32::try_from(index).is_ok_and(|layer| self.remains(layer));
        macro_rules! thin {
            ($($variant:ident),*) => {
                match array {
                    $(Array::$variant(items) => {
                        let mut index = 0;
                        items.retain(|_| { index += 1; remains(index - 1) });
                    })*
                    _ => {}
                }
            };
        }
        thin!(U8, I8, U16, I16, U32, I32, F32, Bool, String, Array, U64, I64, F64);
    }
}

fn values_of(positions: &Positions, property: gguf_layout::loader::Property) -> &[Option<i64>] {
    positions.iter().find(|(of, _)| *of == property).map_or(&[], |(_, values)| values)
}

/// Changes an existing 32- or 64-bit number; leaves values of other types.
fn set_number(metadata: &mut Metadata, key: &str, number: u32) {
    let value = match metadata.get(key) {
        Some(Value::U32(_)) => Value::U32(number),
        Some(Value::I32(_)) => i32::try_from(number).map_or(Value::U32(number), Value::I32),
        Some(Value::U64(_)) => Value::U64(number.into()),
        _ => return,
    };
    metadata.set(key, value);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prune(layers: &[u32]) -> Result<Pruning, Error> {
        let names = ["a", "blk.0.x", "blk.1.x", "blk.3.x", "blk.10.x", "blk.y.z"];
        Ok(Pruning::new(names.into_iter(), &layers.iter().copied().collect())?.unwrap())
    }

    #[test]
    fn remaining_layers_are_renumbered() {
        let pruning = prune(&[1]).unwrap();
        let renamed = |name: &str| pruning.rename(name);
        assert_eq!(renamed("a").as_deref(), Some("a"));
        assert_eq!(renamed("blk.0.x").as_deref(), Some("blk.0.x"));
        assert_eq!(renamed("blk.1.x"), None);
        assert_eq!(renamed("blk.3.x").as_deref(), Some("blk.1.x"));
        assert_eq!(renamed("v.blk.10.x").as_deref(), Some("v.blk.2.x"));
        assert_eq!(renamed("blk.y.z").as_deref(), Some("blk.y.z"));
        assert_eq!(prune(&[0, 10]).unwrap().rename("blk.3.x").as_deref(), Some("blk.1.x"));
        assert!(matches!(prune(&[2]), Err(Error::NoSuchLayer { layer: 2, n_layers: 4 })));
        assert!(matches!(prune(&[0, 1, 3, 10]), Err(Error::NoLayerLeft { n_layers: 4 })));
    }

    /// Prunes layers of a model with layers 0 to `n_layers - 1`.
    fn pruned(n_layers: u32, prune: &[u32]) -> Pruning {
        let names: Vec<String> = (0..n_layers).map(|layer| format!("blk.{layer}.x")).collect();
        let prune = prune.iter().copied().collect();
        Pruning::new(names.iter().map(String::as_str), &prune).unwrap().unwrap()
    }

    #[test]
    fn per_layer_lists_are_shortened() {
        let pruning = pruned(3, &[1]);
        let list = |items: &[u32]| Value::Array(Array::U32(items.to_vec()));
        let mut metadata = Metadata::from([
            ("general.architecture".into(), "t".into()),
            ("t.block_count".into(), Value::U32(3)),
            ("t.heads".into(), list(&[7, 8, 9])),
            ("t.rope.sections".into(), list(&[7, 8, 9])),
            ("other".into(), list(&[7, 8, 9])),
        ]);
        assert!(pruning.describe(&gguf_models::FAMILIES, &mut metadata).is_empty());
        let expected = Metadata::from([
            ("general.architecture".into(), "t".into()),
            ("t.heads".into(), list(&[7, 9])),
            ("t.rope.sections".into(), list(&[7, 8, 9])),
            ("other".into(), list(&[7, 8, 9])),
            ("t.block_count".into(), Value::U32(2)),
        ]);
        assert_eq!(metadata, expected);
    }

    /// Metadata and warnings after layers are pruned.
    fn described(
        architecture: &str,
        keys: &[(&str, u32)],
        prune: &[u32],
        n_layers: u32,
    ) -> (Metadata, Vec<String>) {
        let pruning = pruned(n_layers, prune);
        let mut metadata = Metadata::from([("general.architecture".to_owned(), architecture.into())]);
        for (key, value) in [("block_count", n_layers)].iter().chain(keys) {
            metadata.set(format!("{architecture}.{key}"), *value);
        }
        let lost = pruning.describe(&gguf_models::FAMILIES, &mut metadata);
        (metadata, lost)
    }

    #[test]
    fn layer_counts_are_updated() {
        for (prune, expected) in [
            // Dense layers, MTP layers, all layers.
            (&[0][..], [1, 1, 4]),
            (&[4], [2, 0, 4]),
            (&[2, 3], [2, 1, 3]),
            (&[0, 1, 4], [0, 0, 2]),
        ] {
            let keys = [("leading_dense_block_count", 2), ("nextn_predict_layers", 1)];
            let (metadata, lost) = described("glm4moe", &keys, prune, 5);
            let number = |key: &str| metadata.get(&format!("glm4moe.{key}")).and_then(Value::as_u64).unwrap();
            let found = ["leading_dense_block_count", "nextn_predict_layers", "block_count"].map(number);
            assert_eq!((found, lost), (expected, vec![]), "{prune:?}");
        }
        let (metadata, _) = described("deepseek4", &[("hash_layer_count", 3)], &[1, 3], 4);
        assert_eq!(metadata.get("deepseek4.hash_layer_count"), Some(&Value::U32(2)));
    }

    #[test]
    fn periods_become_lists_if_supported() {
        let list = |items: &[bool]| Value::Array(Array::Bool(items.to_vec()));
        let (metadata, lost) = described("gemma2", &[], &[1], 4);
        assert_eq!(
            metadata.get("gemma2.attention.sliding_window_pattern"),
            Some(&list(&[true, true, false]))
        );
        assert!(lost.is_empty(), "{lost:?}");
        // A complete period: the existing key still fits.
        let (metadata, lost) = described("gemma2", &[], &[0, 1], 4);
        assert_eq!((metadata.get("gemma2.attention.sliding_window_pattern"), lost), (None, vec![]));
        let (metadata, _) = described("qwen3next", &[("full_attention_interval", 4)], &[3], 8);
        let expected = list(&[true, true, true, true, true, true, false]);
        assert_eq!(metadata.get("qwen3next.attention.recurrent_layers"), Some(&expected));
        let (_, lost) = described("smollm3", &[], &[0], 8);
        assert_eq!(lost.len(), 1);
        assert!(lost[0].starts_with("the rotary embedding differs in layers 2, 3, 6"), "{lost:?}");
        let (_, lost) = described("gemma4", &[("attention.shared_kv_layers", 2)], &[3], 6);
        assert!(lost[0].contains("layer 3 is pruned"), "{lost:?}");
        let (_, lost) = described("qwen3vl", &[("n_deepstack_layers", 2)], &[1], 4);
        assert!(lost[0].starts_with("image features"), "{lost:?}");
    }

    #[test]
    fn every_stack_keeps_a_layer() {
        let names = ["enc.blk.0.x", "dec.blk.0.x", "dec.blk.1.x"];
        let prune = |layer| Pruning::new(names.into_iter(), &BTreeSet::from([layer]));
        assert!(matches!(prune(0), Err(Error::NoLayerLeft { n_layers: 1 })));
        let mut metadata = Metadata::from([
            ("general.architecture".into(), "whisper".into()),
            ("whisper.encoder.block_count".into(), Value::U32(1)),
            ("whisper.decoder.block_count".into(), Value::U32(2)),
        ]);
        prune(1).unwrap().unwrap().describe(&gguf_models::FAMILIES, &mut metadata);
        assert_eq!(metadata.get("whisper.encoder.block_count"), Some(&Value::U32(1)));
        assert_eq!(metadata.get("whisper.decoder.block_count"), Some(&Value::U32(1)));
        assert_eq!(metadata.get("whisper.block_count"), None);
    }

    #[test]
    fn shared_tensors_are_kept() {
        let names = ["enc.blk.0.attn_rel_b.weight", "enc.blk.0.x", "enc.blk.1.x", "enc.blk.2.x"];
        let pruning = Pruning::new(names.into_iter(), &BTreeSet::from([0, 1])).unwrap().unwrap();
        assert_eq!(pruning.rename(names[0]).as_deref(), Some(names[0]));
        assert_eq!(pruning.rename(names[1]), None);
        assert_eq!(pruning.rename(names[3]).as_deref(), Some("enc.blk.0.x"));
        // Each layer has its own.
        let names = ["enc.blk.0.attn_rel_b.weight", "enc.blk.1.attn_rel_b.weight"];
        let pruning = Pruning::new(names.into_iter(), &BTreeSet::from([0])).unwrap().unwrap();
        assert_eq!(pruning.rename(names[0]), None);
        assert_eq!(pruning.rename(names[1]).as_deref(), Some(names[0]));
    }

    #[test]
    fn lists_of_unusual_names_are_shortened() {
        let pruning = pruned(3, &[0]);
        let list = |items: &[f32]| Value::Array(Array::F32(items.to_vec()));
        let mut metadata = Metadata::from([
            ("general.architecture".into(), "t".into()),
            ("t.block_count".into(), Value::U32(3)),
            ("t.nextn_predict_layers".into(), Value::U32(1)),
            ("t.of_trunk".into(), list(&[1.0, 2.0])),
            ("xielu.beta".into(), list(&[1.0, 2.0, 3.0])),
        ]);
        pruning.describe(&gguf_models::FAMILIES, &mut metadata);
        assert_eq!(metadata.get("t.of_trunk"), Some(&list(&[2.0])));
        assert_eq!(metadata.get("xielu.beta"), Some(&list(&[2.0, 3.0])));
    }

    #[test]
    fn layer_number_lists_are_renumbered() {
        let pruning = pruned(3, &[1]);
        let mut metadata = Metadata::from([
            ("general.architecture".into(), "qwen4exp".into()),
            ("qwen4exp.block_count".into(), Value::U32(3)),
            ("qwen4exp.ple.layers".into(), Value::Array(Array::I32(vec![0, 1, 2]))),
        ]);
        pruning.describe(&gguf_models::FAMILIES, &mut metadata);
        assert_eq!(metadata.get("qwen4exp.ple.layers"), Some(&Value::Array(Array::I32(vec![0, 1]))));
    }
}
