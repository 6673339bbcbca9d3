//! Temporary files of a calibration, next to its first output.

use std::path::{Path, PathBuf};

/// Temporary path of statistics next to `out`.
pub fn moments_path(out: &Path) -> PathBuf {
    hidden_path(out, "moments")
}

/// Temporary path of the converted checkpoint next to `out`.
pub fn base_path_of(out: &Path) -> PathBuf {
    hidden_path(out, "base")
}

/// Leftovers of a calibration next to `out`, its first output.
pub fn leftovers(out: &Path) -> impl Iterator<Item = PathBuf> {
    [moments_path(out), base_path_of(out)].into_iter().filter(|path| path.exists())
}

fn hidden_path(out: &Path, what: &str) -> PathBuf {
    let name = out.file_name().unwrap_or_default().to_string_lossy();
    out.with_file_name(format!(".{name}.{what}"))
}
