//! The target `metadata_json` of `fuzzing::TARGETS`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzzing::run("metadata_json", bytes));
