//! Order of this crate's modules: a module only uses those below it.

use std::path::Path;

const FLOORS: &[&[&str]] = &[
    &["recipes"],
    &["imatrix", "merge", "unfinished"],
    &["error"],
    // Independent modules.
    &["finite", "key_override", "losses", "planned", "prune", "repack", "resolve", "row_encoder", "rows"],
    // Requests and jobs.
    &["job", "repair", "request"],
    &["prefetch", "files", "journal", "run_options", "targets"],
    &["job_bytes"],
    &["run"],
    &["compare", "output", "verify"],
    &["resume"],
    &["parts"],
    &["input"],
    &["checkpoint_input", "legacy_input", "model_input"],
    &["adapter_input", "diffusion_input", "foreign_input", "vocab_only"],
    // The complete conversion.
    &["conversion", "export"],
];

#[test]
fn modules_use_only_those_below() {
    let faults = gguf_testkit::module_order(Path::new(env!("CARGO_MANIFEST_DIR")), FLOORS);
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
