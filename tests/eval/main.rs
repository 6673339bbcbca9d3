//! `gguf-eval` on tiny models.
#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

#[path = "../common/mod.rs"]
mod common;

mod calls;
mod chat;
mod check_against;
mod continuations;
mod drafts;
mod embed;
mod measure;
mod parts;
mod perplexity;
