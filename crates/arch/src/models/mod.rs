//! One file for each architecture.

pub mod llama;
