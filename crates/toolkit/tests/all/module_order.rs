//! The order of this crate's modules: types stand below everyone who names them.

use std::path::Path;

/// From bottom to top.
const FLOORS: &[&[&str]] = &[
    &["by_name", "hidden_files", "path_json", "sizes", "suggest", "table", "threads"],
    // Errors.
    &["cause"],
    &["error"],
    &["blocks", "call", "events", "file_type", "input_kind", "outputs", "template_guard", "text"],
    &["arguments", "line_diff", "totals"],
    &["architecture_list", "container_file", "input_files", "tokenizer"],
    // Files, and the messages about them.
    &[
        "adapter",
        "coverage_report",
        "digest",
        "failure",
        "file",
        "hub",
        "importance_table",
        "layout_notes",
        "loss_report",
        "memory",
        "metadata_json",
    ],
    &[
        "metadata_change",
        "modelfile",
        "output_files",
        "part_file",
        "progress_line",
        "text_file",
        "unexecuted",
        "vocabularies",
        "writer",
    ],
    &[
        "copy_files",
        "eval_model",
        "export_metadata",
        "hash",
        "recipe_file",
        "remote_headers",
        "set",
        "verify",
    ],
    &["calibration_text", "summary"],
    &[
        "chats",
        "check_against",
        "diff",
        "edit",
        "endian",
        "extract",
        "fit",
        "loader_report",
        "merge",
        "recipe",
        "show",
        "split",
    ],
    // Conversions.
    &["settings"],
    &["calibration", "run"],
    &["compare", "convert", "draft", "importance", "perplexity"],
    &["check", "publish"],
];

#[test]
fn modules_use_only_those_below() {
    let faults = gguf_testkit::module_order(Path::new(env!("CARGO_MANIFEST_DIR")), FLOORS);
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
