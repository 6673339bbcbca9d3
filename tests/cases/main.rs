//! Inputs from public bug reports, run as their users ran them. One module per area; each test names the kind of input.

#[path = "../common/mod.rs"]
mod common;
