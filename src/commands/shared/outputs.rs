//! Outputs of commands, checked before the work starts and not lost after it.

use std::path::Path;

pub(in crate::commands) use gguf_toolkit::outputs::{check_output_name, check_outputs};

use crate::failure::Failure;

/// As [`gguf_toolkit::outputs::write_result`]; results that cannot be written go to the system's temporary folder.
///
/// # Errors
/// The system's error, with the place where the result is.
pub(in crate::commands) fn write_result(path: &Path, bytes: &[u8], force: bool) -> Result<(), Failure> {
    gguf_toolkit::outputs::write_result(path, bytes, force, &std::env::temp_dir())
}
