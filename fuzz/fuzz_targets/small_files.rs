//! The target `small_files` of `fuzzing::TARGETS`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzzing::run("small_files", bytes));
