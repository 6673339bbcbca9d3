//! The target `diffusion_weights` of `gguf_fuzzing::TARGETS`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| gguf_fuzzing::run("diffusion_weights", bytes));
