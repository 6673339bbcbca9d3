//! Plans of conversions that many machines do: a file that fixes everything, and calls that do a part of it.

use std::{
    collections::BTreeMap,
    env,
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
};

use clap::{ArgMatches, Args, ValueHint, parser::ValueSource};
use convert::{
    Fingerprint, PlannedFile,
    parts::{Place, Rates},
};
use gguf::PartNumber;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    commands::shared::{text_file, write::output_parser},
    failure::Failure,
    ui::{Ui, human_bytes},
};

/// What `format` says.
const FORMAT: &str = "gguf-tools plan";
/// The version that is written, and the only one that is read.
const VERSION: u32 = 1;

/// Options of conversions in parts.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Parts, for several machines")]
pub struct PlanArgs {
    /// Write a plan of this conversion instead of converting.
    ///
    /// A plan fixes options, inputs and all offsets of the output.
    #[arg(long, value_name = "FILE", value_parser = output_parser(), conflicts_with_all = ["plan", "dry_run"], hide_short_help = true)]
    pub save_plan: Option<PathBuf>,
    /// Execute a plan, with --part or --assemble.
    ///
    /// Inputs, outputs and options are those of the plan.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "of_plan", hide_short_help = true)]
    pub plan: Option<PathBuf>,
    /// Process only part K of N.
    ///
    /// The part is written to the temporary file of the output, which all machines must see. A part that was interrupted resumes
    /// when it is called again.
    #[arg(long, value_name = "K/N", group = "of_plan", requires = "plan", hide_short_help = true)]
    pub part: Option<PartNumber>,
    /// Write the part to a file of its own, OUT.part-K-of-N.
    ///
    /// Use it if the machines share no folder, or one that does not allow several writers of a file. --assemble finds these files
    /// next to the output.
    #[arg(long, requires = "part", hide_short_help = true)]
    pub part_files: bool,
    /// Check all parts of a plan and complete the output.
    #[arg(long, group = "of_plan", requires = "plan", hide_short_help = true)]
    pub assemble: bool,
}

impl PlanArgs {
    /// What is to be done beside converting, if anything.
    pub fn wanted(&self) -> Wanted<'_> {
        match (&self.save_plan, self.part) {
            (Some(path), _) => Wanted::Save(path),
            (_, Some(number)) if self.part_files => Wanted::Part(number, Place::OwnFile),
            (_, Some(number)) => Wanted::Part(number, Place::Shared),
            _ if self.assemble => Wanted::Assembly,
            _ => Wanted::Everything,
        }
    }
}

/// What a call is about.
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
    /// What decides about the bytes: program, options, inputs, outputs.
    fingerprint: Value,
    /// What an element of each type costs: decides about the shares.
    picoseconds_an_element: BTreeMap<String, u64>,
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
        picoseconds_an_element: rates.by_type().clone(),
        outputs: files.iter().map(|(path, file)| PlannedOutput::new(path, file)).collect(),
    };
    let text = serde_json::to_string_pretty(&plan).map_err(Failure::new)? + "\n";
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
    fn open(path: &Path, binary: &str) -> Result<PlanFile, Failure> {
        let text = text_file::options(path)?;
        PlanFile::parse(&text, binary).map_err(|problem| Failure::at(path, problem))
    }

    /// Reads the text of a plan for a program.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str, binary: &str) -> Result<PlanFile, String> {
        let plan: PlanFile = serde_json::from_str(text).map_err(|error| format!("no plan: {error}"))?;
        let this = program(binary);
        for (what, expected, found) in [
            ("format", FORMAT, &plan.format),
            ("version", &VERSION.to_string(), &plan.version.to_string()),
            ("program", &this, &plan.program),
        ] {
            if expected != found {
                return Err(format!("its {what} is `{found}`, expected `{expected}`"));
            }
        }
        Ok(plan)
    }

    /// What decides about the bytes.
    ///
    /// # Errors
    /// A plan of another form.
    pub fn fingerprint(&self, path: &Path) -> Result<Fingerprint, Failure> {
        Fingerprint::from_json(&self.fingerprint).ok_or_else(|| Failure::at(path, "no plan: its fingerprint"))
    }

    /// What decides about the shares.
    pub fn rates(&self) -> Rates {
        Rates::new(self.picoseconds_an_element.clone())
    }

    /// Goes to the folder that the plan was made in, and gives the matches of its arguments.
    ///
    /// # Errors
    /// No such folder; arguments that are none.
    fn enter(&self, path: &Path, definition: &clap::Command) -> Result<ArgMatches, Failure> {
        env::set_current_dir(&self.folder).map_err(|error| {
            let message = format!("the plan was made in {}: {error}", self.folder.display());
            Failure::at(path, message).hint(["machines of a plan see its folder by the same path"])
        })?;
        self.matches(definition)
            .map_err(|error| Failure::at(path, format_args!("its arguments: {}", error.kind())))
    }

    /// The matches of its arguments.
    ///
    /// # Errors
    /// Arguments that are none.
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
            return failed(format!("the plan has {} files, these are {}", self.outputs.len(), files.len()));
        }
        for (planned, (path, file)) in self.outputs.iter().zip(files) {
            let now = PlannedOutput::new(path, file);
            let tensors = planned.tensors.iter().zip(&now.tensors);
            if let Some((planned, now)) = tensors.into_iter().find(|(planned, now)| planned != now) {
                let place = |it: &PlannedTensor| format!("{} {:?} at {}", it.dtype, it.shape, it.offset);
                let (was, is) = (place(planned), place(now));
                return failed(format!("tensor `{}` is {was} in the plan and {is} now", planned.name));
            }
            if planned.tensors.len() != now.tensors.len() || planned.bytes != now.bytes {
                let (was, is) = (planned.bytes, now.bytes);
                return failed(format!("`{}` has {was} bytes in the plan and {is} now", planned.name));
            }
        }
        Ok(())
    }
}

/// Arguments that a call with a plan has for itself, by their names in clap.
const OWN: &[&str] = &["plan", "part", "part_files", "assemble", "threads", "force", "quiet", "verbose"];
/// Arguments that a plan does not hold.
const NOT_PLANNED: &[&str] =
    &["save_plan", "save_recipe", "threads", "force", "quiet", "verbose", "json", "resume"];

/// A call of a program that makes plans and does them.
#[derive(Debug)]
pub struct PlannedCall {
    /// What is to be converted: the matches of the call, or those of the plan that it names.
    pub matches: ArgMatches,
    /// What a plan would hold.
    pub arguments: Vec<String>,
    /// The plan and its path.
    pub plan: Option<(PlanFile, PathBuf)>,
}

impl PlannedCall {
    /// Reads the plan that a call names, if it names one, and goes to its folder.
    ///
    /// # Errors
    /// A plan that cannot be done, or a call that says what the plan says.
    pub fn new(binary: &str, matches: &ArgMatches, plan: Option<&Path>) -> Result<PlannedCall, Failure> {
        let Some(definition) = crate::commands::define(binary) else {
            return Err(Failure::new(format_args!("`{binary}` is not a binary of this package")));
        };
        let Some(path) = plan else {
            let arguments = arguments(&definition, matches, NOT_PLANNED);
            // Only a plan has to be text.
            let arguments = if matches.contains_id("save_plan") { arguments? } else { Vec::new() };
            return Ok(PlannedCall { matches: matches.clone(), arguments, plan: None });
        };
        check_call(&definition, matches, OWN)?;
        let plan = PlanFile::open(path, binary)?;
        let matches = plan.enter(path, &definition)?;
        Ok(PlannedCall { matches, arguments: Vec::new(), plan: Some((plan, path.to_owned())) })
    }
}

/// Fails where a call with a plan gives what the plan says already. `own` are the ids of arguments that each call has for itself.
///
/// # Errors
/// The first argument that is not among them.
fn check_call(definition: &clap::Command, matches: &ArgMatches, own: &[&str]) -> Result<(), Failure> {
    let given = |arg: &&clap::Arg| {
        let id = arg.get_id().as_str();
        matches.try_contains_id(id).unwrap_or(false)
            && matches.value_source(id) == Some(ValueSource::CommandLine)
            && !own.contains(&id)
    };
    match definition.get_arguments().find(given) {
        None => Ok(()),
        Some(arg) => {
            let name = arg.get_long().map_or_else(|| arg.get_id().to_string(), |long| format!("--{long}"));
            Err(Failure::usage(format_args!("{name}: the plan says it")))
        }
    }
}

/// The arguments of a call as they were given, options before positional ones, without those in `without`.
///
/// # Errors
/// A value that is no text.
fn arguments(
    definition: &clap::Command,
    matches: &ArgMatches,
    without: &[&str],
) -> Result<Vec<String>, Failure> {
    let text = |value: &OsStr| {
        let text = value.to_str().map(str::to_owned);
        text.ok_or_else(|| {
            Failure::usage(format_args!("a plan holds text, and `{}` is none", value.display()))
        })
    };
    let (mut options, mut positional) = (Vec::new(), Vec::new());
    for arg in definition.get_arguments() {
        let id = arg.get_id().as_str();
        let is_given = matches.try_contains_id(id).unwrap_or(false)
            && matches.value_source(id) == Some(ValueSource::CommandLine);
        if !is_given || without.contains(&id) {
            continue;
        }
        let values: Vec<OsString> =
            matches.get_raw(id).into_iter().flatten().map(OsStr::to_os_string).collect();
        match arg.get_long() {
            None => positional.extend(values.iter().map(|value| text(value)).collect::<Result<Vec<_>, _>>()?),
            Some(long) if !arg.get_action().takes_values() => options.push(format!("--{long}")),
            // With the sign of equality a value may begin as an option does.
            Some(long) => {
                for value in &values {
                    options.push(format!("--{long}={}", text(value)?));
                }
            }
        }
    }
    // Behind two dashes a path may begin with one.
    options.push("--".to_owned());
    Ok([options, positional].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_those_of_the_call_without_what_each_call_has_for_itself() {
        let definition = crate::commands::define("gguf-convert").unwrap();
        let parse = |args: &[String]| {
            let args = ["gguf-convert".to_owned()].into_iter().chain(args.iter().cloned());
            definition.clone().try_get_matches_from(args).unwrap()
        };
        let given = "-t q4_k_m,q8_0 --pure --override-kv a.b=str:--x=y --override-kv c.d=int:1 -j 3 --force --save-plan p -- -odd out/";
        let given: Vec<String> = given.split(' ').map(str::to_owned).collect();
        let expected = "--type=q4_k_m --type=q8_0 --pure --override-kv=a.b=str:--x=y --override-kv=c.d=int:1 -- -odd out/";
        let found = arguments(&definition, &parse(&given), NOT_PLANNED).unwrap();
        assert_eq!(found.join(" "), expected);
        assert_eq!(arguments(&definition, &parse(&found), &[]).unwrap(), found);
    }
}
