//! Leaves layers out and numbers the rest anew.
//!
//! Source: `remap_layer` and its use in `llama_model_quantize_impl`, `src/llama-quant.cpp` of
//! llama.cpp as vendored in llama-cpp-python 0.3.36.

use std::collections::{BTreeMap, BTreeSet};

use gguf::{Array, Metadata, Value};

use crate::Error;

/// The layers of a model and what becomes of them: the new number, or none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pruning {
    layers: BTreeMap<u32, Option<u32>>,
    n_left: u32,
}

/// Where `blk.N.` stands in a name first, and N. Any prefix may come before it.
fn layer_in(name: &str) -> Option<(std::ops::Range<usize>, u32)> {
    // The first `blk.` that is followed by digits and a point: `v.blk.10.x` of an image encoder counts, `blk.y.z` does not.
    name.match_indices("blk.").find_map(|(at, found)| {
        let start = at + found.len();
        let digits = name[start..].bytes().take_while(u8::is_ascii_digit).count();
        let range = start..start + digits;
        name[range.end..].starts_with('.').then(|| Some((range.clone(), name[range].parse().ok()?)))?
    })
}

impl Pruning {
    /// Numbers the layers that `names` name and `prune` does not hold.
    ///
    /// # Errors
    /// [`Error::NoSuchLayer`], [`Error::NoLayerLeft`].
    pub(crate) fn new<'a>(
        names: impl Iterator<Item = &'a str>,
        prune: &BTreeSet<u32>,
    ) -> Result<Option<Pruning>, Error> {
        if prune.is_empty() {
            return Ok(None);
        }
        // Layers are those that tensors name. The number in the metadata may be another: some architectures count layers
        // without tensors.
        let have: BTreeSet<u32> = names.filter_map(|name| Some(layer_in(name)?.1)).collect();
        if let Some(&layer) = prune.difference(&have).next() {
            return Err(Error::NoSuchLayer { layer, n_layers: have.len() });
        }
        if prune.len() == have.len() {
            return Err(Error::NoLayerLeft { n_layers: have.len() });
        }
        // Numbers are given in order, so that the k-th layer that stays becomes layer k. The reference starts to count at the
        // first layer that goes, which matters where the numbers of the input have holes.
        let mut n_left = 0;
        let first_pruned = prune.first().copied().unwrap_or_default();
        let number = |layer: u32| {
            if prune.contains(&layer) {
                return (layer, None);
            }
            // Holes before the first layer that goes stay.
            let number = if layer < first_pruned { layer } else { n_left };
            n_left = number + 1;
            (layer, Some(number))
        };
        let layers = have.into_iter().map(number).collect();
        Ok(Some(Pruning { layers, n_left }))
    }

    /// The name with its layer's new number; none for a layer that goes.
    pub(crate) fn rename(&self, name: &str) -> Option<String> {
        let Some((range, layer)) = layer_in(name) else { return Some(name.to_owned()) };
        let number = self.layers.get(&layer).copied().flatten()?;
        Some(format!("{}{number}{}", &name[..range.start], &name[range.end..]))
    }

    /// Sets the number of layers, and leaves out of lists with one item a layer what belongs
    /// to layers that go. (The reference leaves such lists as they are.)
    pub(crate) fn describe(&self, metadata: &mut Metadata) {
        let architecture = metadata.get("general.architecture").and_then(Value::as_str);
        let Some(architecture) = architecture.map(str::to_owned) else { return };
        let key = format!("{architecture}.block_count");
        // By the number before, a list of one item a layer is recognized.
        let n_before = metadata.get(&key).and_then(Value::as_u64);
        let prefix = format!("{architecture}.");
        for (name, value) in metadata.iter_mut().filter(|(name, _)| name.starts_with(&prefix)) {
            // Lists of another length, as of rope sections, are about something else.
            if let Value::Array(array) = value
                && Some(array.len() as u64) == n_before
                && !name.ends_with("sections")
            {
                self.thin(array);
            }
        }
        metadata.set_last(key, self.n_left);
    }

    fn thin(&self, array: &mut Array) {
        // An item beyond the layers that are known stays: it is about none of those that go.
        let stays = |index: usize| {
            u32::try_from(index).is_ok_and(|layer| self.layers.get(&layer).is_none_or(|to| to.is_some()))
        };
        macro_rules! thin {
            ($($variant:ident),*) => {
                match array {
                    $(Array::$variant(items) => {
                        let mut index = 0;
                        items.retain(|_| { index += 1; stays(index - 1) });
                    })*
                    _ => {}
                }
            };
        }
        thin!(U8, I8, U16, I16, U32, I32, F32, Bool, String, Array, U64, I64, F64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prune(layers: &[u32]) -> Result<Pruning, Error> {
        let names = ["a", "blk.0.x", "blk.1.x", "blk.3.x", "blk.10.x", "blk.y.z"];
        Ok(Pruning::new(names.into_iter(), &layers.iter().copied().collect())?.unwrap())
    }

    #[test]
    fn layers_get_new_numbers() {
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

    #[test]
    fn lists_with_an_item_a_layer_get_shorter() {
        let names = ["blk.0.x", "blk.1.x", "blk.2.x"];
        let pruning = Pruning::new(names.into_iter(), &BTreeSet::from([1])).unwrap().unwrap();
        let list = |items: &[u32]| Value::Array(Array::U32(items.to_vec()));
        let mut metadata = Metadata::from([
            ("general.architecture".into(), "t".into()),
            ("t.block_count".into(), Value::U32(3)),
            ("t.heads".into(), list(&[7, 8, 9])),
            ("t.rope.sections".into(), list(&[7, 8, 9])),
            ("other".into(), list(&[7, 8, 9])),
        ]);
        pruning.describe(&mut metadata);
        let expected = Metadata::from([
            ("general.architecture".into(), "t".into()),
            ("t.heads".into(), list(&[7, 9])),
            ("t.rope.sections".into(), list(&[7, 8, 9])),
            ("other".into(), list(&[7, 8, 9])),
            ("t.block_count".into(), Value::U32(2)),
        ]);
        assert_eq!(metadata, expected);
    }
}
