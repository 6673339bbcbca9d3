//! Runs GGUF files and measures what they predict.

#[path = "../launcher.rs"]
mod launcher;

fn main() -> std::process::ExitCode {
    launcher::launch("eval")
}
