//! What several verbs share: groups of options, reports, tables and lines of progress.

pub(super) mod call;
pub(super) mod conversion_run;
pub(super) mod copy_files;
pub(super) mod coverage_report;
pub(super) mod cpu_level;
pub(super) mod edit_file;
pub(super) mod eval_model;
pub(super) mod foreign_options;
pub(super) mod hub;
pub(super) mod input_kind;
pub(super) mod metadata_json;
pub(super) mod outputs;
pub(super) mod part_file;
pub(super) mod pictures;
pub(super) mod plan_report;
pub(super) mod progress_line;
pub(super) mod quantize_options;
pub(super) mod recipe_file;
pub(super) mod suggest;
pub(super) mod table;
pub(super) mod template_guard;
pub(super) mod threads;
pub(super) mod types_help;
pub(super) mod values;
pub(super) mod write;
