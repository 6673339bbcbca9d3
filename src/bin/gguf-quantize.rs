//! Requantizes GGUF files.

use std::process::ExitCode;

fn main() -> ExitCode {
    gguf_tools::commands::main("gguf-quantize")
}
