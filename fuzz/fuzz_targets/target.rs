//! The target of `gguf_fuzzing::TARGETS` that the environment variable `TARGET` names.
#![no_main]

use std::sync::LazyLock;

static TARGET: LazyLock<String> =
    LazyLock::new(|| std::env::var("TARGET").expect("TARGET is the name of a target of gguf-fuzzing"));

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| gguf_fuzzing::run(&TARGET, bytes));
