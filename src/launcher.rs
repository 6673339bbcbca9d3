//! Starts a program of `gguf-tools` under its own name, so that the code of all programs is installed once.

use std::{
    env, fs, io,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

/// Runs a program of the `gguf-tools` executable next to this one, with the arguments of this process.
pub fn launch(program: &str) -> ExitCode {
    let failed = |message: String| {
        eprintln!("error: {message}");
        eprintln!("hint: `cargo install` and `cargo build --bins` make all executables of the package");
        ExitCode::FAILURE
    };
    let Some(shared) = shared_executable() else {
        return failed(format!("`gguf-{program}` found no `gguf-tools` in its folder"));
    };
    let mut arguments = env::args_os();
    let mut command = Command::new(&shared);
    command.arg(program);
    // A link with the name of a program of llama.cpp selects its options.
    if let Some(called) = arguments.next().filter(|called| !is_named(Path::new(called), program)) {
        command.arg("--called-as").arg(called);
    }
    command.args(arguments);
    match run(command) {
        Ok(code) => code,
        Err(error) => failed(format!("{}: {error}", shared.display())),
    }
}

fn is_named(path: &Path, program: &str) -> bool {
    path.file_stem().and_then(|stem| stem.to_str()).and_then(|stem| stem.strip_prefix("gguf-"))
        == Some(program)
}

/// The executable with the code of all programs: in the folder of this file, or of the link that it was called by.
fn shared_executable() -> Option<PathBuf> {
    let running = env::current_exe().ok()?;
    let name = format!("gguf-tools{}", env::consts::EXE_SUFFIX);
    let places = [fs::canonicalize(&running).ok(), Some(running)];
    places.into_iter().flatten().map(|place| place.with_file_name(&name)).find(|path| path.is_file())
}

/// Replaces this process, so that signals and exit codes are those of the program.
#[cfg(unix)]
fn run(mut command: Command) -> io::Result<ExitCode> {
    Err(std::os::unix::process::CommandExt::exec(&mut command))
}

/// Waits for the program. Ctrl-C reaches both processes, and the program decides.
#[cfg(not(unix))]
fn run(mut command: Command) -> io::Result<ExitCode> {
    ctrlc::set_handler(|| {}).map_err(io::Error::other)?;
    let code = command.status()?.code().unwrap_or(1);
    std::process::exit(code)
}
