//! Identity of a call, for its journal: a run can only be resumed by a call that gives the same bytes.

use std::path::{Path, PathBuf};

use gguf_conversion::InputFile;

use crate::error::Error;

/// Identity of a call.
#[derive(Debug, Clone, Default)]
pub struct Call {
    /// The program.
    pub binary: &'static str,
    /// True if an interrupted run should be resumed.
    pub resume: bool,
    /// Options that change bytes, with their values.
    pub options: Vec<(String, String)>,
    /// Files and folders that are read, as the command line names them.
    pub files: Vec<PathBuf>,
    /// Models that are read over the network, with what names their state.
    pub remote: Vec<(String, String)>,
}

impl Call {
    /// Adds a positional argument.
    pub fn argument(mut self, name: &str, value: String) -> Call {
        self.options.push((name.to_owned(), value));
        self
    }

    /// The same with files or folders that are read.
    pub fn reads<'a>(mut self, files: impl IntoIterator<Item = &'a Path>) -> Call {
        self.files.extend(files.into_iter().map(Path::to_owned));
        self
    }

    /// All files that are read.
    ///
    /// # Errors
    /// A file whose metadata cannot be read.
    pub fn inputs(&self) -> Result<Vec<InputFile>, Error> {
        let mut inputs = Vec::new();
        for path in &self.files {
            inputs.extend(InputFile::all_of(path).map_err(|error| Error::cannot_open(path, error))?);
        }
        inputs.extend(self.remote.iter().map(|(name, tag)| InputFile {
            name: name.clone(),
            n_bytes: 0,
            modified: None,
            tag: Some(tag.clone()),
        }));
        Ok(inputs)
    }

    /// The program and its build.
    pub fn program(&self) -> String {
        // On Linux this is the file that runs, even where another one has its name now.
        let running = Path::new("/proc/self/exe");
        let path = match running.exists() {
            true => running.to_owned(),
            false => std::env::current_exe().unwrap_or_default(),
        };
        let build = gguf_conversion::file_checksum(&path)
            .map_or_else(|_| "?".to_owned(), |sum| format!("{sum:016x}"));
        format!("{} {} (build {build})", self.binary, env!("CARGO_PKG_VERSION"))
    }
}
