//! Tiny models of every family, run through the libraries: predictions, gradients, statistics and memory.
#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

#[path = "../common/mod.rs"]
mod common;

mod adapters;
mod audio;
mod drafts;
mod gradients;
mod logits;
mod memory;
mod moments;
mod mutate;
mod probe;
mod sessions;
mod vision;
