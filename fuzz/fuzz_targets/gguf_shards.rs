//! The target `gguf_shards` of `fuzzing::TARGETS`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzzing::run("gguf_shards", bytes));
