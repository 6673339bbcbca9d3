//! The arguments of a conversion that a plan holds.

use std::{
    env,
    ffi::{OsStr, OsString},
    path::Path,
};

use clap::{ArgMatches, parser::ValueSource};
use gguf_toolkit::convert::plan_file::PlanFile;

use crate::failure::Failure;

/// Changes to the folder that a plan was made in. Returns the command of its call, and the matches with `own` options added.
///
/// # Errors
/// A missing folder; invalid arguments.
pub fn enter(
    plan: &PlanFile,
    path: &Path,
    binary: &str,
    own: Vec<String>,
) -> Result<(Option<String>, ArgMatches), Failure> {
    env::set_current_dir(plan.folder()).map_err(|error| {
        let message = format!("the plan was made in folder {}: {error}", plan.folder().display());
        Failure::at(path, message).hint(["make the folder available at the same path on every machine"])
    })?;
    let definition = definition(binary)?;
    let mut arguments = plan.arguments().to_vec();
    let verb = arguments.first().filter(|first| definition.find_subcommand(first).is_some()).cloned();
    let at = usize::from(verb.is_some());
    arguments.splice(at..at, own);
    let matches = matches(&arguments, &definition)
        .map_err(|error| Failure::at(path, format_args!("its arguments: {}", error.kind())))?;
    let inner = matches.subcommand().map(|(_, inner)| inner.clone());
    Ok((verb, inner.unwrap_or(matches)))
}

/// The matches of the arguments of a plan.
///
/// # Errors
/// Invalid arguments.
pub fn matches(arguments: &[String], definition: &clap::Command) -> Result<ArgMatches, clap::Error> {
    let arguments = [definition.get_name()].into_iter().chain(arguments.iter().map(String::as_str));
    definition.clone().try_get_matches_from(arguments)
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
