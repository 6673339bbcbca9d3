//! Inputs that are named by an address of the Hugging Face Hub, with the environment of the process.

use std::path::Path;

pub(in crate::commands) use gguf_toolkit::hub::{Environment, Input, Wanted};

use crate::{failure::Failure, ui::Ui};

/// Calls `work` with the environment of the process.
pub(in crate::commands) fn with_environment<T>(work: impl FnOnce(&Environment<'_>) -> T) -> T {
    let temporary = std::env::temp_dir();
    work(&Environment { variable: &|name| std::env::var(name).ok(), temporary: &temporary })
}

/// As [`gguf_toolkit::hub::input`].
///
/// # Errors
/// An invalid address, or a model that is not available.
pub(in crate::commands) fn input(path: &Path, wanted: Wanted<'_>, ui: &Ui) -> Result<Input, Failure> {
    with_environment(|environment| gguf_toolkit::hub::input(path, wanted, environment, ui))
}
