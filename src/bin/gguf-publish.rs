//! Builds a model repository from a checkpoint.

use std::process::ExitCode;

fn main() -> ExitCode {
    gguf_tools::commands::main("gguf-publish")
}
