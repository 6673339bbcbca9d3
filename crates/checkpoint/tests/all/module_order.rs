//! Order of this crate's modules: a module only uses those below it.

use std::path::Path;

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
    &["codes", "dense", "marked", "mlx_adapter"],
    // The tables of formats and quantization methods, and the code that opens folders by them.
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
