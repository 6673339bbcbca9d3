//! `gguf-inspect`: show, edit, fit, recipe, tokenizer and verify.
#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

#[path = "../common/mod.rs"]
mod common;
#[cfg(feature = "remote")]
#[expect(dead_code, reason = "other tests use the rest of it")]
#[path = "../hub_server/mod.rs"]
mod hub_server;

mod edit;
mod fit;
mod recipe;
mod several;
mod show;
mod tokenizer;
mod verify_adapters;
mod verify_faults;
mod verify_goldens;
mod verify_source;
