//! The order of this crate's modules: types stand below everyone who names them.

use std::path::Path;

/// From bottom to top.
const FLOORS: &[&[&str]] = &[
    &["recipes"],
    &["imatrix", "merge", "unfinished"],
    &["error"],
    // Parts that know nothing of each other.
    &["finite", "key_override", "losses", "planned", "prune", "repack", "resolve", "row_encoder", "rows"],
    // Requests and jobs.
    &["job", "request"],
    &["prefetch", "files", "journal", "run_options", "targets"],
    &["job_bytes"],
    &["run"],
    &["compare", "output", "verify"],
    &["resume"],
    &["parts"],
    // Inputs.
    &["input"],
    &["checkpoint_input", "legacy_input", "model_input"],
    &["adapter_input", "diffusion_input", "foreign_input", "vocab_only"],
    // All of it together.
    &["conversion", "export"],
];

#[test]
fn modules_use_only_those_below() {
    let faults = gguf_testkit::module_order(Path::new(env!("CARGO_MANIFEST_DIR")), FLOORS);
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
