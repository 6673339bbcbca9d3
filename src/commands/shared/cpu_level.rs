//! The CPU level that the kernels run at.

use gguf_toolkit::quant::{LEVEL_VARIABLE, Level};

use crate::failure::Failure;

/// Returns the CPU level to run at: the best one of this machine, or the one named by the environment variable, in any
/// case. An empty value is ignored.
///
/// # Errors
/// A level that does not exist or that this machine does not have.
pub(in crate::commands) fn cpu_level() -> Result<Level, Failure> {
    let name = std::env::var(LEVEL_VARIABLE).unwrap_or_default();
    if name.is_empty() {
        return Ok(Level::detect());
    }
    // A program inside another process takes the level that is in use there.
    Level::from_name(&name).map(|level| Level::choose(level).err().unwrap_or(level)).ok_or_else(|| {
        let available: Vec<&str> = Level::available().into_iter().map(Level::name).collect();
        Failure::usage(format_args!("{LEVEL_VARIABLE}: level `{name}` is not supported by this machine"))
            .hint([format!("available: {}", available.join(", "))])
    })
}
