//! The container through its public API: bytes in, verdicts and bytes out.
#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

mod adapter;
mod errors;
mod goldens;
mod handcrafted;
mod names;
mod random;
mod raw;
mod roundtrip;
mod split;
