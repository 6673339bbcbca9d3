//! The order of the modules of the command line: commands above what they share, and that above the terminal.

use std::path::Path;

/// From bottom to top.
const FLOORS: &[&[&str]] = &[
    &["failure", "launcher", "word_wrap"],
    &["ui"],
    &["commands"],
    &[
        "bin::gguf-convert",
        "bin::gguf-eval",
        "bin::gguf-inspect",
        "bin::gguf-publish",
        "bin::gguf-quantize",
        "bin::gguf-tools",
    ],
];

#[test]
fn command_line_uses_only_modules_below() {
    let faults = gguf_testkit::module_order(Path::new(env!("CARGO_MANIFEST_DIR")), FLOORS);
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
