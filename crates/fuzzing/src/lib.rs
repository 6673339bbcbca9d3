//! Readers of foreign files as functions of bytes, in one table.
//!
//! Whatever makes bytes can drive them: the mutation loop here ([`Loop`], in `cargo test` for a moment, by `scripts/fuzz-long`
//! for hours) and libFuzzer (`fuzz/`, which is a workspace of its own). What must not happen is the same for all: a panic,
//! [`MAX_SECONDS`] of time, [`MAX_BYTES`] of memory beyond the input.

mod executions;
mod mutation;
mod pieces;
mod scratch;
mod seeds;
mod targets;

pub use executions::{Loop, MAX_BYTES, MAX_SECONDS, Memory, Report, Target};
pub use mutation::Mutation;
pub use seeds::two_shards;
pub use targets::{TARGETS, run, target};
