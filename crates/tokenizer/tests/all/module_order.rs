//! The order of this crate's modules: each uses those below it only.

use std::path::Path;

/// From bottom to top. Modules of one line do not use each other.
const FLOORS: &[&[&str]] = &[
    &["json", "keys", "pre", "files", "token_type", "byte_alphabet"],
    &["tokenizer"],
    &["huggingface", "encode"],
    &["export"],
];

#[test]
fn modules_use_only_those_below() {
    let faults = gguf_testkit::module_order(Path::new(env!("CARGO_MANIFEST_DIR")), FLOORS);
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
