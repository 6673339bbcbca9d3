//! The programs as users run them, the libraries on tiny models, and the repository.
#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

mod common;
#[cfg(feature = "remote")]
mod hub_server;

mod cases;
mod convert;
mod eval;
mod inspect;
mod models;
mod publish;
mod quantize;
mod repository;
mod runs;
