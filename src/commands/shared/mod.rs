//! Code that several commands share: groups of options, reports, tables and progress.

pub(super) mod call;
pub(super) mod call_advice;
pub(super) mod conversion;
pub(super) mod copy_args;
pub(super) mod cpu_level;
pub(super) mod edit_file;
pub(super) mod eval_args;
pub(super) mod help;
pub(super) mod hub;
pub mod llama_cpp;
pub(super) mod output_args;
pub(super) mod outputs;
pub(super) mod part_args;
pub(super) mod planned_calls;
pub(super) mod sampling_args;
pub(super) mod several;
pub(super) mod template_args;
pub(super) mod threads;
pub(super) mod types_help;
pub(super) mod values;
