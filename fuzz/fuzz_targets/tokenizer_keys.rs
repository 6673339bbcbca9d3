//! The target `tokenizer_keys` of `fuzzing::TARGETS`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzzing::run("tokenizer_keys", bytes));
