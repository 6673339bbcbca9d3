//! The command line of the toolchain; every library is a crate under `crates/`.
//!
//! A binary is one line that calls [`commands::main`] with its own name. What it can do is in
//! [`commands::COMMANDS`], one file for each verb. Only [`ui`] knows terminals.

pub mod commands;
pub mod failure;
pub mod hints;
pub mod ui;
