//! Converts Hugging Face checkpoints to GGUF files.

#[path = "../launcher.rs"]
mod launcher;

fn main() -> std::process::ExitCode {
    launcher::launch("convert")
}
