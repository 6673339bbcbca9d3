//! MTP layers of a file: the last ones, which predict more than the next token.

use std::ops::Range;

use gguf_container::{Metadata, Value};

/// Numbers of the MTP layers that the keys of a file announce. Programs that predict the next token, or collect importance data,
/// do not execute them. Empty for a file that consists only of such layers.
///
/// ```
/// let mut metadata = gguf_container::Metadata::new();
/// metadata.set("general.architecture", "glm4moe");
/// metadata.set("glm4moe.block_count", 3u32);
/// metadata.set("glm4moe.nextn_predict_layers", 1u32);
/// assert_eq!(gguf_layout::mtp_layers(&metadata), 2..3);
/// ```
pub fn mtp_layers(metadata: &Metadata) -> Range<u64> {
    let architecture = metadata.get("general.architecture").and_then(Value::as_str).unwrap_or_default();
    let number = |key: &str| metadata.get(&format!("{architecture}.{key}")).and_then(Value::as_u64);
    let n_layers = number("block_count").unwrap_or(0);
    let n_mtp = number("nextn_predict_layers").unwrap_or(0);
    if n_mtp < n_layers { n_layers - n_mtp..n_layers } else { 0..0 }
}

/// The number of the MTP layer that a tensor belongs to.
pub fn mtp_layer_of(layers: &Range<u64>, tensor: &str) -> Option<u64> {
    let layer = u64::from(gguf_types::layer_and_part(tensor)?.0);
    layers.contains(&layer).then_some(layer)
}
