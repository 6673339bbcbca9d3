//! The order of this crate's modules: types stand below everyone who names them.

use std::path::Path;

/// From bottom to top.
const FLOORS: &[&[&str]] = &[
    &["dtype"],
    &["error"],
    &["json", "listing", "tensor", "yaml"],
    &["card", "rows"],
    &["small_files"],
    &["safetensors"],
    // The table of formats, and what opens folders by it.
    &["formats"],
    &["checkpoint"],
    &["adapter"],
];

#[test]
fn modules_use_only_those_below() {
    let faults = testkit::module_order(Path::new(env!("CARGO_MANIFEST_DIR")), FLOORS, &[]);
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
