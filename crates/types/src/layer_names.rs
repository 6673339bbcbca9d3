//! Names of tensors in GGUF files.

/// Splits the name of a layer's tensor into the layer number and the rest. `None` for tensors outside layers.
///
/// ```
/// assert_eq!(gguf_types::layer_and_part("blk.12.attn_q.weight"), Some((12, "attn_q.weight")));
/// assert_eq!(gguf_types::layer_and_part("output.weight"), None);
/// ```
pub fn layer_and_part(name: &str) -> Option<(u32, &str)> {
    let (layer, part) = name.strip_prefix("blk.")?.split_once('.')?;
    let is_number = layer.bytes().all(|byte| byte.is_ascii_digit());
    Some((layer.parse().ok().filter(|_| is_number)?, part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_numbered_layers_are_split() {
        for name in ["blk.", "blk.1", "blk..x", "blk.+1.x", "blk.x.y", "enc.blk.0.x", "blk.4294967296.x"] {
            assert_eq!(layer_and_part(name), None, "{name}");
        }
        assert_eq!(layer_and_part("blk.007.x"), Some((7, "x")));
        assert_eq!(layer_and_part("blk.0."), Some((0, "")));
    }
}
