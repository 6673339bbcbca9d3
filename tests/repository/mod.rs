//! The repository as a whole: documents, crates, tables, messages and calls that cannot work.

mod api;
mod command_line;
mod documents;
#[cfg(target_os = "linux")]
mod engines;
mod errors;
mod examples;
mod facade;
mod families;
mod hints;
mod launchers;
mod layers;
mod llama_cpp;
mod llama_cpp_tables;
mod module_order;
mod options;
mod packages;
mod readme;
mod registries;
mod wrong_calls;
