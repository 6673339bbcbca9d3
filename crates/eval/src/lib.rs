//! Runs a GGUF from its own keys and tensors: the independent check of what was converted.
//!
//! This crate has never heard of safetensors, tokenizer.json or architectures as the converter
//! knows them; it reads GGUF only. So far it turns text into tokens ([`tokenize`]).

pub mod tokenize;
