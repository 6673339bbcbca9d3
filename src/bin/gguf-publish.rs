//! Makes of a checkpoint the folder that people download.

use std::process::ExitCode;

fn main() -> ExitCode {
    gguf_tools::commands::main("gguf-publish")
}
