//! The order of this crate's modules: types stand below everyone who names them.

use std::path::Path;

/// From bottom to top.
const FLOORS: &[&[&str]] = &[
    &["dtype", "family_form", "pickle_error"],
    &["read_error"],
    &["error", "part"],
    &["json", "links", "yaml"],
    &["listing"],
    &["card", "folder", "foreign", "ggml_legacy", "stored"],
    &["tensor"],
    &["wrappers"],
    &["rows", "small_files", "weights"],
    &["shards"],
    &["safetensors", "torch"],
    &["codes", "dense", "mlx_adapter"],
    // The table of formats, that of quantization methods, and what opens folders by them.
    &["formats", "methods"],
    &["training", "unread_files"],
    &["checkpoint"],
    &["adapter", "diffusion", "memory"],
    &["text_file"],
    &["hub"],
];

#[test]
fn modules_use_only_those_below() {
    let faults = gguf_testkit::module_order(Path::new(env!("CARGO_MANIFEST_DIR")), FLOORS);
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
