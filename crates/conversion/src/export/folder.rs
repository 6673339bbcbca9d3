//! A folder that gets its name when it is complete.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use tempfile::TempDir;

use super::error::ExportError;
use crate::Error;

/// A folder that is being filled, next to its final place.
#[derive(Debug)]
pub struct Folder {
    final_path: PathBuf,
    /// Removed with its contents unless finished.
    temporary: TempDir,
    force: bool,
}

fn io_error(path: &Path) -> impl Fn(io::Error) -> ExportError + use<> {
    let path = path.to_owned();
    move |error| ExportError::Io { path: path.clone(), error }
}

impl Folder {
    /// Checks the final path and creates the temporary folder next to it. `input` is the file that is read
    /// meanwhile.
    ///
    /// # Errors
    /// [`ExportError::Convert`] with [`Error::NoFolder`] or [`gguf_container::Error::Exists`],
    /// [`ExportError::NotReplaceable`], [`ExportError::InputInside`], [`ExportError::Io`].
    pub fn create(final_path: &Path, input: &Path, force: bool) -> Result<Folder, ExportError> {
        let not_a_name =
            || ExportError::NotReplaceable { path: final_path.to_owned(), reason: "it has no name" };
        let name = final_path.file_name().ok_or_else(not_a_name)?.to_string_lossy();
        let parent = match final_path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        if !parent.is_dir() {
            return Err(Error::NoFolder { folder: parent.to_owned() }.into());
        }
        check(final_path, input, force)?;
        // Named like the temporary files of `gguf_container::Output`, so that the next run can report
        // leftovers of a killed one.
        let mut builder = tempfile::Builder::new();
        let prefix = format!(".{}-", std::process::id());
        let suffix = format!(".{}.partial", gguf_container::kept_name(&name));
        builder.prefix(&prefix).suffix(&suffix);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            // The usual mode of a new folder, before the umask.
            builder.permissions(fs::Permissions::from_mode(0o777));
        }
        let temporary = builder.tempdir_in(parent).map_err(io_error(parent))?;
        Ok(Folder { final_path: final_path.to_owned(), temporary, force })
    }

    pub fn path(&self, file: &str) -> PathBuf {
        self.temporary.path().join(file)
    }

    /// Writes a small file, in a subfolder if its name has one.
    pub fn write(&self, file: &str, bytes: &[u8]) -> Result<(), ExportError> {
        let path = self.path(file);
        let write = || {
            if let Some(parent) = path.parent() {
                fs::create_dir_all(parent)?;
            }
            let mut file = fs::File::create_new(&path)?;
            io::Write::write_all(&mut file, bytes)?;
            file.sync_all()
        };
        write().map_err(io_error(Path::new(file)))
    }

    /// Renames the folder to its final name. A previous folder is removed only after that.
    ///
    /// # Errors
    /// [`ExportError::Io`], and those of [`Folder::create`] if something appeared in the meantime.
    pub fn finish(self, input: &Path) -> Result<(), ExportError> {
        let Folder { final_path, temporary, force } = self;
        check(&final_path, input, force)?;
        let io = io_error(&final_path);
        if fs::symlink_metadata(&final_path).is_err() {
            fs::rename(temporary.path(), &final_path).map_err(io)?;
            // The temporary folder no longer exists, so its destructor must not run.
            drop(temporary.keep());
            return Ok(());
        }
        let parent = temporary.path().parent().unwrap_or(Path::new("."));
        let before = tempfile::Builder::new().prefix(".replaced.").tempdir_in(parent).map_err(&io)?;
        let aside = before.path().join("before");
        fs::rename(&final_path, &aside).map_err(&io)?;
        if let Err(error) = fs::rename(temporary.path(), &final_path) {
            // Put the previous folder back. If that fails too, it keeps its temporary name.
            if fs::rename(&aside, &final_path).is_err() {
                drop(before.keep());
            }
            return Err(io(error));
        }
        drop(temporary.keep());
        before.close().map_err(io)
    }
}

/// Checks that the path is free, or may be replaced.
fn check(path: &Path, input: &Path, force: bool) -> Result<(), ExportError> {
    let Ok(metadata) = fs::symlink_metadata(path) else { return Ok(()) };
    let not_replaceable = |reason| Err(ExportError::NotReplaceable { path: path.to_owned(), reason });
    if !metadata.is_dir() {
        return not_replaceable("it is not a folder");
    }
    let (real, real_input) = (fs::canonicalize(path), fs::canonicalize(input));
    if let (Ok(real), Ok(real_input)) = (real, real_input)
        && real_input.starts_with(&real)
    {
        return Err(ExportError::InputInside { path: path.to_owned() });
    }
    let is_empty = fs::read_dir(path).map_err(io_error(path))?.next().is_none();
    if is_empty {
        return Ok(());
    }
    if !force {
        return Err(Error::Gguf(gguf_container::Error::Exists { path: path.to_owned() }).into());
    }
    // Protects a folder that was specified by mistake.
    if path.join("config.json").is_file() { Ok(()) } else { not_replaceable("it has no config.json") }
}
