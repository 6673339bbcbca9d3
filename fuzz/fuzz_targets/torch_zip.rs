//! The target `torch_zip` of `fuzzing::TARGETS`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzzing::run("torch_zip", bytes));
