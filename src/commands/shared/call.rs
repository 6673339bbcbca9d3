//! Identity of a call, for its journal: a run can only be resumed by a call that gives the same bytes.

use std::path::{Path, PathBuf};

use gguf_toolkit::call::Call;

/// A program, without options.
pub fn program(binary: &str) -> Call {
    Call { program: binary.to_owned(), executable: Some(executable()), ..Call::default() }
}

/// The file of this program.
pub(in crate::commands) fn executable() -> PathBuf {
    // On Linux this is the running file, even if another one has its name now.
    let running = Path::new("/proc/self/exe");
    if running.exists() { running.to_owned() } else { std::env::current_exe().unwrap_or_default() }
}
