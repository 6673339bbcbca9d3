//! Runs GGUF files and measures what they predict.

use std::process::ExitCode;

fn main() -> ExitCode {
    gguf_tools::commands::main("gguf-eval")
}
