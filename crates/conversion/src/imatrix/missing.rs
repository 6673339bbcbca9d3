//! Treatment of tensors that need importance data but have no entry.

use gguf_types::DType;

use crate::recipes::{FileType, TensorFacts, layer_of, requires_imatrix};

use super::{Imatrix, ImatrixError, values_of};

/// Treatment of missing importance data. The reference has only the first policy, and reports the error only
/// after encoding all preceding tensors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum MissingPolicy {
    /// Fail before anything is written.
    #[default]
    Error,
    /// Weigh all columns equally.
    Ones,
    /// Use the weights of a tensor with the same input, or else those of the same tensor in the nearest layer
    /// (the earlier of two).
    Neighbour,
    /// Use the next larger dtype that needs no weights.
    RaiseType,
}

impl MissingPolicy {
    /// All policies with their names.
    pub const ALL: &[(&'static str, MissingPolicy)] = &[
        ("error", MissingPolicy::Error),
        ("ones", MissingPolicy::Ones),
        ("neighbour", MissingPolicy::Neighbour),
        ("raise-type", MissingPolicy::RaiseType),
    ];

    /// The policy of this name.
    pub fn from_name(name: &str) -> Option<MissingPolicy> {
        Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, policy)| *policy)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, known)| *known == self).map_or("", |(name, _)| name)
    }
}

/// The next dtype that needs no weights for this tensor in this file type.
pub fn raised(name: &str, dtype: DType, file_type: FileType) -> DType {
    let mut dtype = dtype;
    // Each step goes to a larger type, so the loop ends.
    while requires_imatrix(name, dtype, file_type) {
        match dtype.raised() {
            Some(next) => dtype = next,
            None => break,
        }
    }
    dtype
}

/// Parts of a layer that share an input, including fused tensors.
const SAME_INPUT: &[&[&str]] = &[
    &["attn_q", "attn_k", "attn_v", "attn_qkv"],
    &["attn_q_a", "attn_kv_a_mqa"],
    &["ffn_gate", "ffn_up"],
    &["ffn_gate_shexp", "ffn_up_shexp"],
    &["ffn_gate_exps", "ffn_up_exps", "ffn_gate_up_exps"],
];

/// Name and weights, (n_experts, row_elems), of an entry with the same input as `tensor`. The weights are
/// valid for both: programs that compute several products in one step record the input once.
pub fn same_input<'a>(imatrix: &'a Imatrix, tensor: &TensorFacts<'_>) -> Option<(&'a str, &'a [f32])> {
    let (layer, part) = gguf_types::layer_and_part(tensor.name)?;
    let part = part.strip_suffix(".weight")?;
    let group = SAME_INPUT.iter().find(|group| group.contains(&part))?;
    if imatrix.filtered.contains(tensor.name) {
        return None;
    }
    let entries = group.iter().filter_map(|other| {
        let (name, entry) = imatrix.entries.get_key_value(&format!("blk.{layer}.{other}.weight"))?;
        Some((name.as_str(), &entry.weights[..]))
    });
    entries.into_iter().find(|(_, weights)| weights.len() as u64 == values_of(tensor))
}

/// Weights, (n_experts, row_elems), of a tensor with the same input, or of the same tensor in the nearest
/// layer. The dtype of `tensor` is its target type.
///
/// # Errors
/// [`ImatrixError::NoNeighbour`].
pub fn neighbour<'a>(
    imatrix: Option<&'a Imatrix>,
    tensor: &TensorFacts<'_>,
) -> Result<&'a [f32], ImatrixError> {
    let missing = || ImatrixError::NoNeighbour { tensor: tensor.name.to_owned(), dtype: tensor.dtype };
    let found = |imatrix| {
        same_input(imatrix, tensor).map(|(_, weights)| weights).or_else(|| nearest(imatrix, tensor))
    };
    imatrix.and_then(found).ok_or_else(missing)
}

fn nearest<'a>(imatrix: &'a Imatrix, tensor: &TensorFacts<'_>) -> Option<&'a [f32]> {
    let (layer, part) = (layer_of(tensor.name)?, part_of(tensor.name)?);
    // Layers may differ in size: only weights of the right length qualify.
    let similar = imatrix.entries.iter().filter(|(name, entry)| {
        part_of(name) == Some(part) && entry.weights.len() as u64 == values_of(tensor)
    });
    let nearest = similar
        .filter_map(|(name, entry)| {
            let other = layer_of(name)?;
            // By distance, then by layer: the earlier of two.
            Some(((other.abs_diff(layer), other), entry))
        })
        .min_by_key(|(distance, _)| *distance)?;
    Some(&nearest.1.weights)
}

/// `attn_q.weight` of `blk.3.attn_q.weight`.
fn part_of(name: &str) -> Option<&str> {
    gguf_types::layer_and_part(name).map(|(_, part)| part)
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use gguf_types::{DType::*, Shape};

    use super::*;
    use crate::imatrix::{Entry, Format};

    /// Entries with these numbers of weights, whose values are their layer number.
    fn imatrix(names: &[(&str, usize)]) -> Imatrix {
        let entry = |(name, n): &(&str, usize)| {
            let layer = layer_of(name).unwrap() as f32;
            (name.to_string(), Entry { weights: vec![layer; *n], seen: vec![1] })
        };
        let entries = BTreeMap::from_iter(names.iter().map(entry));
        Imatrix {
            entries,
            filtered: BTreeSet::new(),
            datasets: vec![],
            n_chunks: 0,
            chunk_tokens: 0,
            format: Format::Legacy,
        }
    }

    fn tensor(name: &str, dtype: DType) -> TensorFacts<'_> {
        TensorFacts { name, shape: Shape::new(&[256, 3]).unwrap(), dtype }
    }

    #[test]
    fn nearest_layer_of_same_size_is_used() {
        let imatrix = imatrix(&[
            ("blk.1.attn_q.weight", 256),
            ("blk.5.attn_q.weight", 256),
            ("blk.9.attn_q.weight", 256),
            ("blk.8.attn_q.weight", 512),
            ("blk.8.attn_k.weight", 256),
        ]);
        // The keys of layer 8 have the inputs of its queries.
        for (layer, expected) in [(0, 1), (3, 1), (4, 5), (7, 5), (8, 8), (99, 9)] {
            let name = format!("blk.{layer}.attn_q.weight");
            let found = neighbour(Some(&imatrix), &tensor(&name, IQ2_XS)).unwrap();
            assert_eq!(found, [expected as f32; 256], "{name}");
        }
        let alone = tensor("blk.0.ffn_up.weight", IQ2_XS);
        let found = neighbour(Some(&imatrix), &alone);
        assert!(matches!(found, Err(ImatrixError::NoNeighbour { .. })), "{found:?}");
    }

    #[test]
    fn tensors_with_the_same_input_stand_in() {
        let imatrix = imatrix(&[
            ("blk.1.ffn_up.weight", 256),
            ("blk.1.ffn_gate_exps.weight", 512),
            ("blk.1.attn_qkv.weight", 256),
            ("blk.2.ffn_gate.weight", 256),
        ]);
        for (name, expected) in [
            ("blk.1.ffn_gate.weight", Some("blk.1.ffn_up.weight")),
            ("blk.1.attn_k.weight", Some("blk.1.attn_qkv.weight")),
            // The entry of two experts does not fit a matrix of one.
            ("blk.1.ffn_up_exps.weight", None),
            ("blk.1.ffn_down.weight", None),
            ("blk.3.ffn_gate.weight", None),
        ] {
            let found = same_input(&imatrix, &tensor(name, IQ2_XS));
            assert_eq!(found.map(|(name, _)| name), expected, "{name}");
        }
        // Before the same tensor of another layer.
        let found = neighbour(Some(&imatrix), &tensor("blk.1.ffn_gate.weight", IQ2_XS)).unwrap();
        assert_eq!(found, [1.0; 256]);
    }

    #[test]
    fn raising_stops_at_types_without_importance() {
        for &dtype in DType::ALL {
            for file_type in [FileType::Q2_K_S, FileType::IQ1_S] {
                let to = raised("blk.0.ffn_up.weight", dtype, file_type);
                assert!(!requires_imatrix("blk.0.ffn_up.weight", to, file_type), "{dtype} {to}");
                assert!(
                    to.bits_per_elem() >= dtype.bits_per_elem() && to.block_elems() == dtype.block_elems()
                );
            }
        }
        assert_eq!(raised("blk.0.ffn_up.weight", IQ1_S, FileType::Q2_K_S), Q3_K);
    }
}
