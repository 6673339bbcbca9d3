//! Plans of conversions that many machines do: a file that fixes everything, and calls that do a part of it.

use std::{
    collections::BTreeMap,
    env,
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
};

use clap::{ArgMatches, parser::ValueSource};
use convert::{
    Fingerprint, PlannedFile,
    parts::{Place, Rates},
};
use gguf::PartNumber;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    commands::shared::text_file,
    failure::Failure,
    ui::{Ui, human_bytes, pretty_json},
};

/// Value of `format`.
const FORMAT: &str = "gguf-tools plan";
/// The version that is written, and the only one that is read.
const VERSION: u32 = 1;

/// The part of a conversion to execute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted<'a> {
    /// The whole conversion.
    Everything,
    /// A plan of it.
    Save(&'a Path),
    /// One part of a plan, and where it writes.
    Part(PartNumber, Place),
    /// The output, of all parts.
    Assembly,
}

/// A plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanFile {
    /// Distinguishes plans from other JSON.
    format: String,
    /// The version of this format.
    version: u32,
    /// The program and its version.
    program: String,
    /// The folder that relative paths are seen from.
    folder: PathBuf,
    /// The arguments of the program, input and output last.
    arguments: Vec<String>,
    /// State that the bytes depend on: program, options, inputs, outputs.
    fingerprint: Value,
    /// Cost per element of each type, which determines the parts.
    picoseconds_per_element: BTreeMap<String, u64>,
    /// Every file and where each tensor lies in it.
    outputs: Vec<PlannedOutput>,
}

/// One file of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PlannedOutput {
    name: String,
    bytes: u64,
    tensors: Vec<PlannedTensor>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PlannedTensor {
    name: String,
    dtype: String,
    /// Row length first.
    shape: Vec<u64>,
    offset: u64,
    bytes: u64,
}

impl PlannedOutput {
    fn new(path: &Path, file: &PlannedFile) -> PlannedOutput {
        let tensor = |tensor: &gguf::PlannedTensor| PlannedTensor {
            name: tensor.name.clone(),
            dtype: tensor.dtype.name().to_owned(),
            shape: tensor.shape.dims().to_vec(),
            offset: tensor.offset,
            bytes: tensor.n_bytes,
        };
        PlannedOutput {
            name: path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            bytes: file.plan.file_len(),
            tensors: file.plan.tensors().iter().map(tensor).collect(),
        }
    }
}

/// Writes a plan of files that were planned and checked.
///
/// # Errors
/// A file is there and `force` is not given; the system's refusal.
pub fn save(
    path: &Path,
    (binary, arguments): (&str, &[String]),
    (fingerprint, rates): (&Fingerprint, &Rates),
    files: &[(PathBuf, &PlannedFile)],
    ui: &Ui,
) -> Result<(), Failure> {
    let n_bytes = files.iter().map(|(_, file)| file.plan.file_len()).sum();
    let folder = env::current_dir().map_err(|error| Failure::cannot_open(Path::new("."), error))?;
    let plan = PlanFile {
        format: FORMAT.to_owned(),
        version: VERSION,
        program: program(binary),
        folder,
        arguments: arguments.to_vec(),
        fingerprint: fingerprint.to_json(),
        picoseconds_per_element: rates.by_type().clone(),
        outputs: files.iter().map(|(path, file)| PlannedOutput::new(path, file)).collect(),
    };
    let text = pretty_json(&plan)?;
    gguf::Output::write_whole(path, text.as_bytes(), true).map_err(Failure::new)?;
    let (path, size) = (path.display(), human_bytes(n_bytes));
    ui.status(&format!("wrote {path}: a plan of {} files, {size}", files.len()));
    Ok(())
}

/// A program as a plan names it.
fn program(binary: &str) -> String {
    format!("{binary} {}", env!("CARGO_PKG_VERSION"))
}

impl PlanFile {
    /// Reads the file at `path`.
    ///
    /// # Errors
    /// It cannot be read, or is no plan of this version and program.
    pub fn open(path: &Path, binary: &str) -> Result<PlanFile, Failure> {
        let text = text_file::options(path)?;
        PlanFile::parse(&text, binary).map_err(|problem| Failure::at(path, problem))
    }

    /// Reads the text of a plan for a program.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str, binary: &str) -> Result<PlanFile, String> {
        let plan: PlanFile =
            serde_json::from_str(text).map_err(|error| format!("not a plan file: {error}"))?;
        let this = program(binary);
        for (what, expected, found) in [
            ("format", FORMAT, &plan.format),
            ("version", &VERSION.to_string(), &plan.version.to_string()),
            ("program", &this, &plan.program),
        ] {
            if expected != found {
                return Err(format!("expected {what} `{expected}`, found `{found}`"));
            }
        }
        Ok(plan)
    }

    /// State that the bytes depend on.
    ///
    /// # Errors
    /// A plan of another form.
    pub fn fingerprint(&self, path: &Path) -> Result<Fingerprint, Failure> {
        Fingerprint::from_json(&self.fingerprint)
            .ok_or_else(|| Failure::at(path, "not a plan file: invalid fingerprint"))
    }

    /// Costs that determine the parts.
    pub fn rates(&self) -> Rates {
        Rates::new(self.picoseconds_per_element.clone())
    }

    /// Goes to the folder that the plan was made in. Returns the command of its call, and the matches with `own` options added.
    ///
    /// # Errors
    /// A missing folder; invalid arguments.
    pub fn enter(
        &self,
        path: &Path,
        binary: &str,
        own: Vec<String>,
    ) -> Result<(Option<String>, ArgMatches), Failure> {
        env::set_current_dir(&self.folder).map_err(|error| {
            let message = format!("the plan was made in folder {}: {error}", self.folder.display());
            Failure::at(path, message).hint(["make the folder available at the same path on every machine"])
        })?;
        let definition = definition(binary)?;
        let mut arguments = self.arguments.clone();
        let verb = arguments.first().filter(|first| definition.find_subcommand(first).is_some()).cloned();
        let at = usize::from(verb.is_some());
        arguments.splice(at..at, own);
        let matches = PlanFile { arguments, ..self.clone() }.matches(&definition);
        let matches =
            matches.map_err(|error| Failure::at(path, format_args!("its arguments: {}", error.kind())))?;
        let inner = matches.subcommand().map(|(_, inner)| inner.clone());
        Ok((verb, inner.unwrap_or(matches)))
    }

    /// The matches of its arguments.
    ///
    /// # Errors
    /// Invalid arguments.
    pub fn matches(&self, definition: &clap::Command) -> Result<ArgMatches, clap::Error> {
        let arguments = [definition.get_name()].into_iter().chain(self.arguments.iter().map(String::as_str));
        definition.clone().try_get_matches_from(arguments)
    }

    /// Fails unless what is planned now is what the plan says.
    ///
    /// # Errors
    /// The first difference.
    pub fn check_layout(&self, path: &Path, files: &[(PathBuf, &PlannedFile)]) -> Result<(), Failure> {
        let failed = |message: String| Err(Failure::at(path, message));
        if self.outputs.len() != files.len() {
            return failed(format!(
                "expected {} files as in the plan, found {}",
                self.outputs.len(),
                files.len()
            ));
        }
        for (planned, (path, file)) in self.outputs.iter().zip(files) {
            let now = PlannedOutput::new(path, file);
            let tensors = planned.tensors.iter().zip(&now.tensors);
            if let Some((planned, now)) = tensors.into_iter().find(|(planned, now)| planned != now) {
                let place = |tensor: &PlannedTensor| {
                    format!("{} {:?} at {}", tensor.dtype, tensor.shape, tensor.offset)
                };
                let (was, is) = (place(planned), place(now));
                return failed(format!(
                    "tensor `{}` was {was} when the plan was made and is now {is}",
                    planned.name
                ));
            }
            if planned.tensors.len() != now.tensors.len() || planned.bytes != now.bytes {
                let (was, is) = (planned.bytes, now.bytes);
                return failed(format!(
                    "`{}` had {was} bytes when the plan was made and now has {is}",
                    planned.name
                ));
            }
        }
        Ok(())
    }
}

/// Arguments that a plan does not hold.
const NOT_PLANNED: &[&str] = &["save_recipe", "threads", "force", "quiet", "verbose", "json", "resume"];

fn definition(binary: &str) -> Result<clap::Command, Failure> {
    let unknown = || Failure::new(format_args!("`{binary}` is not a program of this package"));
    crate::commands::define(binary).ok_or_else(unknown)
}

/// The arguments of a call that a plan holds, its command first.
///
/// # Errors
/// A value that is not UTF-8.
pub fn arguments_of(binary: &str, verb: Option<&str>, matches: &ArgMatches) -> Result<Vec<String>, Failure> {
    let text = |word: OsString| {
        word.into_string()
            .map_err(|word| Failure::usage(format_args!("`{}` is not valid UTF-8", word.display())))
    };
    let words = words(binary, verb, matches, NOT_PLANNED).into_iter().map(text);
    verb.map(str::to_owned).map(Ok).into_iter().chain(words).collect()
}

/// The arguments of a call as they were given, options before positional ones, without those in `without`.
pub fn words(binary: &str, verb: Option<&str>, matches: &ArgMatches, without: &[&str]) -> Vec<OsString> {
    let (mut options, mut positional) = (Vec::new(), Vec::new());
    let definition = crate::commands::define(binary).unwrap_or_default();
    let command = verb.and_then(|verb| definition.find_subcommand(verb)).unwrap_or(&definition);
    for arg in command.get_arguments() {
        let id = arg.get_id().as_str();
        let is_given = matches.try_contains_id(id).unwrap_or(false)
            && matches.value_source(id) == Some(ValueSource::CommandLine);
        if !is_given || without.contains(&id) {
            continue;
        }
        let values = matches.get_raw(id).into_iter().flatten();
        match arg.get_long() {
            None => positional.extend(values.map(OsStr::to_os_string)),
            Some(long) if !arg.get_action().takes_values() => options.push(format!("--{long}").into()),
            // After `=` a value may start with a dash.
            Some(long) => options.extend(values.map(|value| {
                let mut option = OsString::from(format!("--{long}="));
                option.push(value);
                option
            })),
        }
    }
    // After `--` a path may start with a dash.
    options.push("--".into());
    options.extend(positional);
    options
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plan_keeps_arguments_of_the_conversion() {
        let definition = crate::commands::define("gguf-convert").unwrap();
        let parse = |args: &str| {
            definition
                .clone()
                .try_get_matches_from(["gguf-convert"].into_iter().chain(args.split(' ')))
                .unwrap()
        };
        let given = "-t q4_k_m,q8_0 --pure --override-kv a.b=str:--x=y --override-kv c.d=int:1 -j 3 --force \
            -- -odd out/";
        let found = arguments_of("gguf-convert", None, &parse(given)).unwrap().join(" ");
        let mut sorted: Vec<&str> = found.split(' ').collect();
        sorted.sort_unstable();
        let expected = "-- --override-kv=a.b=str:--x=y --override-kv=c.d=int:1 --pure --type=q4_k_m \
            --type=q8_0 -odd out/";
        assert_eq!(sorted.join(" "), expected);
        assert_eq!(arguments_of("gguf-convert", None, &parse(&found)).unwrap().join(" "), found);
    }
}
