//! Identity of a call, for its journal: a run can only be resumed by a call that gives the same bytes.

use std::path::{Path, PathBuf};

use gguf_conversion::{InputFile, Origin};
use serde::Serialize;
use serde_json::Value;

use crate::error::Error;

/// Name of a program that does not set one.
const LIBRARY: &str = "gguf-toolkit";

/// Options and groups of options that change no byte of an output, by their names on the command line (with underscores) and in the
/// JSON form of the options. A run can be resumed with others.
pub const HARMLESS: &[&str] = &[
    "dry_run",
    "eval_text",
    "force",
    "hub",
    "json",
    "keep",
    "no_tensors",
    "no_verify",
    "output",
    "quiet",
    "resume",
    "save_recipe",
    "source",
    "statistics",
    "threads",
    "verbose",
];

/// Options that only turn an error into a success. A run can be resumed with one that it began without.
pub const PERMISSIONS: &[&str] = &["allow_nonfinite", "allow_requantize"];

/// Identity of a call.
#[derive(Debug, Clone)]
pub struct Call {
    /// Name of the program, by which its plans are recognized.
    pub program: String,
    /// File of the program, whose checksum identifies the build. A journal without it identifies only the version.
    pub executable: Option<PathBuf>,
    /// Options that change bytes or permit something, with their values.
    pub options: Vec<(String, String)>,
    /// Files and folders that are read, as the caller names them.
    pub files: Vec<PathBuf>,
    /// Models that are read over the network, with the commit that identifies their state.
    pub remote: Vec<(String, String)>,
    /// Downloads to verify before an output gets its name.
    #[cfg(feature = "remote")]
    pub downloads: Vec<gguf_checkpoint::hub::Downloads>,
}

impl Default for Call {
    fn default() -> Call {
        Call {
            program: LIBRARY.to_owned(),
            executable: None,
            options: Vec::new(),
            files: Vec::new(),
            remote: Vec::new(),
            #[cfg(feature = "remote")]
            downloads: Vec::new(),
        }
    }
}

impl Call {
    /// The call of a program that uses the library, identified by its options.
    ///
    /// # Errors
    /// Options that have no JSON form.
    pub fn of_options(options: &impl Serialize) -> Result<Call, Error> {
        let mut named = Vec::new();
        flatten("", &serde_json::to_value(options).map_err(Error::new)?, &mut named);
        Ok(Call { options: named, ..Call::default() })
    }

    /// Sets an argument that changes bytes.
    #[must_use]
    pub fn argument(mut self, name: &str, value: String) -> Call {
        self.options.retain(|(known, _)| known != name);
        self.options.push((name.to_owned(), value));
        self
    }

    /// The same with files or folders that are read.
    #[must_use]
    pub fn reads<'a>(mut self, files: impl IntoIterator<Item = &'a Path>) -> Call {
        self.files.extend(files.into_iter().map(Path::to_owned));
        self
    }

    /// Everything besides the plan that decides the bytes. `program` is [`Call::program`].
    ///
    /// # Errors
    /// As [`Call::inputs`].
    pub fn origin<'a>(&self, program: &'a (dyn Fn() -> String + Sync)) -> Result<Origin<'a>, Error> {
        let is_permission = |(name, _): &(String, String)| {
            let name = name.trim_start_matches("--").replace('-', "_");
            PERMISSIONS.contains(&name.rsplit('.').next().unwrap_or_default())
        };
        let (permissions, options): (Vec<_>, Vec<_>) = self.options.iter().cloned().partition(is_permission);
        let permissions = permissions.into_iter().map(|(name, _)| name).collect();
        Ok(Origin { program, options, permissions, inputs: self.inputs()? })
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

    /// Verifies the checksums of downloads that are kept.
    ///
    /// # Errors
    /// A download that failed or has another checksum, an interruption.
    pub(crate) fn verify_downloads(&self) -> Result<(), gguf_conversion::Error> {
        #[cfg(feature = "remote")]
        for downloads in &self.downloads {
            downloads.verify().map_err(|error| match error {
                gguf_checkpoint::hub::HubError::Interrupted => gguf_conversion::Error::Cancelled,
                error => Box::new(error).into(),
            })?;
        }
        Ok(())
    }

    /// The program with its version and, if its file is known, its build. Reads that file.
    pub fn program(&self) -> String {
        let version = format!("{} {}", self.program, env!("CARGO_PKG_VERSION"));
        let Some(executable) = &self.executable else { return version };
        let build = gguf_conversion::file_checksum(executable)
            .map_or_else(|_| "?".to_owned(), |sum| format!("{sum:016x}"));
        format!("{version} (build {build})")
    }
}

/// The options that are set, by their path in the JSON form.
fn flatten(path: &str, value: &Value, named: &mut Vec<(String, String)>) {
    if HARMLESS.contains(&path.rsplit('.').next().unwrap_or_default()) {
        return;
    }
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                flatten(&path, value, named);
            }
        }
        Value::Null | Value::Bool(false) => {}
        Value::Array(values) if values.is_empty() => {}
        Value::String(text) => named.push((path.to_owned(), text.clone())),
        value => named.push((path.to_owned(), value.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_options_that_change_bytes_identify_a_call() {
        let options = json!({
            "types": ["q8_0"],
            "output": {"force": true},
            "naming": {"model_name": "a", "pre": null},
            "calibration": {"statistics": "b", "inputs_only": true},
            "repack": false,
            "allow_nonfinite": true,
            "adapters": [],
        });
        let call = Call::of_options(&options).unwrap();
        let named = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let expected = [
            named("types", "[\"q8_0\"]"),
            named("naming.model_name", "a"),
            named("calibration.inputs_only", "true"),
            named("allow_nonfinite", "true"),
        ];
        assert_eq!(call.options, expected);
        let origin = call.origin(&|| String::new()).unwrap();
        assert_eq!(
            (&origin.options[..], &origin.permissions[..]),
            (&expected[..3], &["allow_nonfinite".to_owned()][..])
        );
        assert_eq!(call.program(), concat!("gguf-toolkit ", env!("CARGO_PKG_VERSION")));
    }

    #[test]
    fn build_is_checksum_of_executable() {
        let folder = tempfile::tempdir().unwrap();
        let executable = folder.path().join("program");
        std::fs::write(&executable, b"one").unwrap();
        let call = Call { executable: Some(executable.clone()), ..Call::default() };
        let first = call.program();
        assert!(first.contains("(build ") && !first.contains('?'), "{first}");
        std::fs::write(&executable, b"two").unwrap();
        assert_ne!(call.program(), first);
    }
}
