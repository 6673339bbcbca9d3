//! All programs in one executable: `gguf-tools convert` is `gguf-convert`.

use std::process::ExitCode;

fn main() -> ExitCode {
    gguf_tools::commands::main()
}
