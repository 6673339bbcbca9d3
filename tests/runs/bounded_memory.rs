//! Memory follows the length of the input, not what its items cost one by one.

use std::process::Command;

use crate::common::Sandbox;
use gguf_container::{Array, DEFAULT_ALIGNMENT, Endian, Metadata, Plan, Strings};
use gguf_types::{DType, Shape};

/// Address space in KiB: the 80 MB of the input in several copies (mapped, read, planned, written), and
/// the program. A list of separate vectors took 24 bytes a string in each of three copies, 788 MB.
const LIMIT_KIB: u32 = 640_000;

#[test]
fn ten_million_empty_strings_cost_8_bytes_each() {
    let sandbox = Sandbox::new();
    let mut strings = Strings::with_capacity(10_000_000);
    (0..10_000_000).for_each(|_| strings.push(b""));
    let metadata = Metadata::from([
        ("general.architecture".to_owned(), "llama".into()),
        ("llama.block_count".to_owned(), 1u32.into()),
        ("tokenizer.ggml.tokens".to_owned(), Array::String(strings).into()),
    ]);
    let tensors = vec![("output_norm.weight".to_owned(), Shape::new(&[32]).unwrap(), DType::F32)];
    let plan = Plan::new(&metadata, tensors, Endian::Little, DEFAULT_ALIGNMENT).unwrap();
    sandbox.write("in.gguf", plan.to_bytes(&[[0; 128]]).unwrap());

    let output = Command::new("sh")
        .current_dir(sandbox.path(""))
        // One arena: glibc reserves 64 MiB of addresses for each thread's.
        .env("MALLOC_ARENA_MAX", "1")
        .args(["-c", &format!("ulimit -v {LIMIT_KIB}; exec \"$0\" \"$@\"")])
        .arg(env!("CARGO_BIN_EXE_gguf-quantize"))
        .args(["in.gguf", "out.gguf", "q8_0", "--threads", "1"])
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    let out = sandbox.file("out.gguf");
    assert_eq!(
        out.get("tokenizer.ggml.tokens").and_then(|value| value.as_array()).map(Array::len),
        Some(10_000_000)
    );
}
