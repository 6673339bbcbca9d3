//! Rounding and statistics through the public API of the crate.
#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

mod batched;
mod cache;
mod common;
mod golden;
mod kronecker;
mod rounding;
