//! The command line of the toolchain; every library is a crate under `crates/`.
//!
//! `gguf-tools` calls [`commands::main`]; the other executables start it with the name of their program. Commands are in
//! [`commands::COMMANDS`], one file each. Only [`ui`] deals with terminals.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr, clippy::exit))]
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

pub mod commands;
pub mod failure;
pub mod ui;
mod word_wrap;
