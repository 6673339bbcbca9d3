//! `gguf-eval` on tiny models.

mod calls;
mod chat;
mod check_against;
mod continuations;
mod drafts;
mod embed;
mod measure;
mod parts;
mod perplexity;
