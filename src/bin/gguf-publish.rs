//! Builds a model repository from a checkpoint.

#[path = "../launcher.rs"]
mod launcher;

fn main() -> std::process::ExitCode {
    launcher::launch("publish")
}
