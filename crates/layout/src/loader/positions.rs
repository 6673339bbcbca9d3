//! Properties of layers that follow from their position: sliding windows in a period, recurrent layers in an interval.

use std::collections::HashMap;

use gguf_container::{Metadata, Value};

use super::{
    expression::{Expr, Facts, Layers},
    table::{common, section},
};
use crate::registry::Families;

/// A property that depends on the position of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Property {
    /// Attention is limited to a window.
    SlidingWindow,
    /// The layer has a recurrent state instead of attention.
    Recurrent,
    /// The indexer selects its own tokens.
    Indexer,
    /// Keys are compressed by this ratio.
    Compression,
    /// The rotary embedding is applied.
    Rotary,
    /// Keys and values are those of an earlier layer.
    SharedKeys,
    /// Number of times that the residual stream was halved before the layer.
    Scale,
    /// The residual stream is attended to before the layer.
    ResidualAttention,
}

impl Property {
    /// All of them, with their formulas.
    const ALL: [(Property, &'static str); 8] = [
        (Property::SlidingWindow, "is_swa[@]"),
        (Property::Recurrent, "is_recr[@]"),
        (Property::Indexer, "is_indexer_full[@]"),
        (Property::Compression, "dsv4_compress_ratios[@]"),
        (Property::Rotary, "uses_rope[@]"),
        (Property::SharedKeys, "shares_kv[@]"),
        (Property::Scale, "$.rescale_every_n_layers~0>0?@/$.rescale_every_n_layers:0"),
        (Property::ResidualAttention, "$.attn_res.block_size~0>0?@%$.attn_res.block_size==0:0"),
    ];

    /// The key that can list the property layer by layer, without the architecture; `None` if llama.cpp reads no such list.
    pub fn list_key(self, families: &Families, architecture: &str) -> Option<&'static str> {
        let key = match self {
            Property::SlidingWindow => "attention.sliding_window_pattern",
            Property::Recurrent => "attention.recurrent_layers",
            _ => return None,
        };
        // A field that reads the key takes a list instead of the period.
        let mut keys = Vec::new();
        section(families, architecture)?.fields.iter().for_each(|(_, formula)| formula.keys(&mut keys));
        keys.iter().any(|read| read.strip_prefix('.') == Some(key)).then_some(key)
    }

    /// A noun for messages.
    pub fn noun(self) -> &'static str {
        match self {
            Property::SlidingWindow => "the sliding window",
            Property::Recurrent => "the kind of layer (attention or recurrent)",
            Property::Indexer => "the indexer",
            Property::Compression => "the compression of keys",
            Property::Rotary => "the rotary embedding",
            Property::SharedKeys => "the sharing of keys and values",
            Property::Scale => "the scale of the residual stream",
            Property::ResidualAttention => "the attention to the residual stream",
        }
    }
}

/// Values of each property by layer; `None` for a value that the table does not determine.
pub type Positions = Vec<(Property, Vec<Option<i64>>)>;

/// Properties of the first `n_layers` layers as llama.cpp reads the keys. Empty for an architecture that it does not know.
pub fn positions(families: &Families, metadata: &Metadata, n_layers: u32) -> Positions {
    let architecture = metadata.get("general.architecture").and_then(Value::as_str);
    let Some((architecture, common)) = architecture.zip(common()) else { return Vec::new() };
    let Some(own) = section(families, architecture) else { return Vec::new() };
    let tensors = HashMap::new();
    let fields =
        common.fields.iter().chain(&own.fields).map(|(name, formula)| (*name, formula.clone())).collect();
    let facts = Facts::new(metadata, architecture, &tensors, fields);
    let values = |formula: &'static str| {
        let formula = Expr::parse(formula).unwrap_or(Expr::Unknown);
        let at = |layer: u32| facts.int(&formula, Layers { at: layer.into(), ..Layers::default() });
        (0..n_layers).map(at).collect()
    };
    Property::ALL.iter().map(|(property, formula)| (*property, values(formula))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_formula_parses() {
        assert!(Property::ALL.iter().all(|(_, formula)| Expr::parse(formula).is_some()));
    }
}
