//! Readers of untrusted files as functions of bytes, in one table.
//!
//! Any source of bytes can drive them: the mutation loop here ([`Loop`], briefly in `cargo test`, for hours
//! by `scripts/fuzz-long`) and libFuzzer (`fuzz/`, a separate workspace). Failures are defined alike: a
//! panic, more than [`MAX_SECONDS`] of time, more than [`MAX_BYTES`] of memory beyond the input.

mod executions;
mod mutation;
mod pieces;
mod scratch;
mod seeds;
mod targets;

pub use executions::{Loop, MAX_BYTES, MAX_SECONDS, Memory, Report, Target};
pub use mutation::Mutation;
pub use pieces::piece;
pub use seeds::two_shards;
pub use targets::{TARGETS, run, target};
