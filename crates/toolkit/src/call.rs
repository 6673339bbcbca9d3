//! Identity of a call, for its journal: a run can only be resumed by a call that gives the same bytes.

use std::path::{Path, PathBuf};

use gguf_conversion::{InputFile, Origin};
use gguf_types::{Words, words};
use serde::Serialize;
use serde_json::Value;

use crate::error::Error;

/// Value of an option that has none.
const GIVEN: &str = "given";

/// Name of a program that does not set one.
const LIBRARY: &str = "gguf-toolkit";

/// Options and groups of options that change no byte of an output, by their names in the JSON form. A run can be resumed with
/// others. They are not part of a call's identity.
pub const HARMLESS: &[&str] = &[
    "eval_text",
    "hub",
    "keep",
    "memory",
    "modelfile",
    "no_verify",
    "output",
    "save_recipe",
    "source",
    "statistics",
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
    /// The call of a program that uses the library, identified by the options that differ from their defaults.
    ///
    /// # Errors
    /// Options that have no JSON form.
    pub fn of_options(options: &(impl Serialize + Default)) -> Result<Call, Error> {
        let given = given_options(options)?;
        let options = given.iter().map(|(path, value)| named(path, value)).collect();
        Ok(Call { options, ..Call::default() })
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

/// The options that differ from their defaults and are not harmless, by their paths in the JSON form.
///
/// # Errors
/// Options that have no JSON form.
pub(crate) fn given_options<T: Serialize + Default>(options: &T) -> Result<Vec<(String, Value)>, Error> {
    let (mut given, mut defaults) = (Vec::new(), Vec::new());
    flatten("", json_of(options)?, &mut given);
    flatten("", json_of(&T::default())?, &mut defaults);
    given.retain(|option| !defaults.contains(option));
    Ok(given)
}

/// The JSON form, by its text, in which an `f32` has no more digits than it needs.
fn json_of(options: &impl Serialize) -> Result<Value, Error> {
    let text = serde_json::to_string(options).map_err(Error::new)?;
    serde_json::from_str(&text).map_err(Error::new)
}

fn flatten(path: &str, value: Value, found: &mut Vec<(String, Value)>) {
    if HARMLESS.contains(&path.rsplit('.').next().unwrap_or_default()) {
        return;
    }
    let fields = match value {
        // A path that is not Unicode is one value.
        Value::Object(fields) if !fields.contains_key("units") => fields,
        value => return found.push((path.to_owned(), value)),
    };
    for (name, value) in fields {
        flatten(&if path.is_empty() { name } else { format!("{path}.{name}") }, value, found);
    }
}

/// The option of the command line that sets a field: `--arch-as` for `arch.arch_as`.
pub(crate) fn option_name(path: &str) -> Words {
    let last = path.rsplit('.').next().unwrap_or(path);
    match last {
        "adapters" => words!("[-lora]"),
        "types" => words!("[-type]"),
        "prediction" => words!("[-mtp] or [-no-mtp]"),
        "tensor_types" => words!("[-tensor-type]"),
        last => words!("[-{}]", last.replace('_', "-")),
    }
}

/// An option as journals and messages name it.
fn named(path: &str, value: &Value) -> (String, String) {
    let value = text(value);
    match (path.rsplit('.').next(), value.as_str()) {
        (Some("prediction"), "only") => (words!("[-mtp]").to_string(), GIVEN.to_owned()),
        (Some("prediction"), _) => (words!("[-no-mtp]").to_string(), GIVEN.to_owned()),
        _ => (option_name(path).to_string(), value),
    }
}

/// A value as the command line has it: items of lists with commas, the parts of an item with `=`.
fn text(value: &Value) -> String {
    let joined = |parts: Vec<String>, separator| parts.join(separator);
    match value {
        Value::Bool(true) => GIVEN.to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) => joined(items.iter().map(text).collect(), ","),
        Value::Object(parts) => joined(parts.values().map(text).collect(), "="),
        value => value.to_string().trim_end_matches(".0").to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Adapter, Convert, ConvertLegacy, FileType, calibration::Budget, convert::MtpLayers};

    #[test]
    fn only_options_that_change_bytes_identify_a_call() {
        let mut options = Convert::new("model", [FileType::Q8_0, FileType::Q4_K_M]);
        options.output.force = true;
        options.naming.model_name = Some("a".to_owned());
        options.calibration.statistics = Some("b".into());
        options.calibration.inputs_only = true;
        options.encoding.plain.allow_nonfinite = true;
        options.budget.limit = Some(Budget::Bpw(4.0));
        options.arch.prediction = MtpLayers::Only;
        options.adapters = vec![Adapter::new("c"), Adapter { scale: 0.5, ..Adapter::new("d") }];
        let call = Call::of_options(&options).unwrap();
        let named = |(name, value): (&str, &str)| (words!("[-{}]", name).to_string(), value.to_owned());
        let expected = [
            ("type", "q8_0,q4_k_m"),
            ("lora", "c,d=0.5"),
            ("mtp", "given"),
            ("model-name", "a"),
            ("allow-nonfinite", "given"),
            ("inputs-only", "given"),
            ("target-bpw", "4"),
        ];
        assert_eq!(call.options, expected.map(named));
        let origin = call.origin(&|| String::new()).unwrap();
        assert_eq!(origin.permissions, [words!("[-allow-nonfinite]").to_string()]);
        assert_eq!(origin.options.len(), expected.len() - 1);
        assert_eq!(call.program(), concat!("gguf-toolkit ", env!("CARGO_PKG_VERSION")));
        let legacy = ConvertLegacy { eps: Some(1e-6), ..ConvertLegacy::new("model", []) };
        assert_eq!(Call::of_options(&legacy).unwrap().options, [named(("eps", "1e-6"))]);
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
