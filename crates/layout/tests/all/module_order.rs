//! Permitted uses between the crate's modules: types stand below the modules that name them.

use std::path::Path;

/// From the ground up.
const FLOORS: &[&[&str]] = &[
    &["adapter_names"],
    &["mtp", "row_map", "spellings", "text_part"],
    &["source_rows"],
    &["combination"],
    &["departure"],
    &["file_keys", "input", "layout", "naming"],
    &["error"],
    &["config", "leftovers"],
    &["keys", "quantile", "tensors", "rope_llama3"],
    &["text_keys", "pooling", "stored_blocks", "unread_keys", "built_in", "yarn", "dense_modules"],
    &["arch", "diffusion", "projector", "quantization"],
    &["foreign"],
    &["prelude", "registry"],
    &["diffusers_layout", "diffusion_families", "diffusion_parts", "loader", "options"],
    &["diffusion_layout"],
    &["diffusion_file", "general", "ignored_keys", "late_keys"],
    &["key_places", "loadable", "model_keys", "nearest", "needed", "prediction"],
    &["unknown"],
    &["resolve"],
    &["adapter", "export", "legacy", "resolve_projector", "saved_form"],
];

#[test]
fn modules_use_only_those_below() {
    let faults = gguf_testkit::module_order(Path::new(env!("CARGO_MANIFEST_DIR")), FLOORS);
    assert!(faults.is_empty(), "{faults:#?}");
}
