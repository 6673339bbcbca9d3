//! Errors of conversions as the programs report them, with the commands that remove leftovers of an interrupted run.

use std::path::{Path, PathBuf};

use gguf_conversion::{Unfinished, recipes::RecipeError};

use crate::{
    error::Error,
    hidden_files,
    input_kind::{self, Wanted},
    text::{human_bytes, human_duration},
};
use gguf_types::{Words, words};

/// The error of a conversion of `input`, with sizes and times in readable units.
pub fn failure(input: &Path, error: gguf_conversion::Error) -> Error {
    use gguf_conversion::Error as E;
    match error {
        E::Gguf(gguf_container::Error::NoSpace { folder, needed, free }) => {
            let (needed, free) = (human_bytes(needed), human_bytes(free));
            Error::at(&folder, format_args!("not enough disk space: {needed} needed, {free} free"))
        }
        E::Unfinished { path, run } => unfinished(&path, &run),
        E::NotResumable { path, differences, advice, .. } => {
            let differences = differences.join("; ");
            Error::at(&path, format_args!("cannot resume: {differences}"))
                .hint(advice)
                .hint([words!("use [-force] without [-resume] to start over")])
        }
        E::Gguf(gguf_container::Error::Busy { path }) => Error::at(&path, "being written by another process"),
        E::Busy { path, process, host, began } => {
            let host = if gguf_container::this_process().1 == host {
                "this machine".to_owned()
            } else {
                format!("`{host}`")
            };
            let since = began.and_then(|began| began.elapsed().ok());
            let since = since.map_or_else(String::new, |since| format!(", since {}", human_duration(since)));
            Error::at(&path, format_args!("being written by process {process} on {host}{since}"))
        }
        E::Source(gguf_checkpoint::Error::Read(gguf_checkpoint::ReadError::Interrupted)) => {
            Error::interrupted()
        }
        error @ E::Recipe(RecipeError::Key(_)) => {
            input_kind::explained(input, Wanted::Gguf, Error::at(input, error))
        }
        error @ E::Source(_) => source_failure(input, error, Wanted::Checkpoint),
        E::Merge { folder, error } => {
            let advice = input_kind::advice(&folder, Wanted::AdapterFolder);
            Error::at(input, E::Merge { folder, error }).hint(advice)
        }
        error => Error::at(input, error),
    }
}

/// The error of a folder that cannot be read, with advice if it is something else than wanted.
pub fn source_failure(input: &Path, error: gguf_conversion::Error, wanted: Wanted) -> Error {
    Error::at(input, error).hint(input_kind::advice(input, wanted))
}

/// The error for an interrupted earlier run, with hints.
fn unfinished(path: &Path, run: &Unfinished) -> Error {
    let age = run.age.map_or_else(String::new, |age| format!(" {} ago", human_duration(age)));
    let (done, total) = (human_bytes(run.done_bytes), human_bytes(run.total_bytes));
    let message = format!("an earlier run was interrupted{age} after {done} of {total}");
    let outputs = (run.outputs.len() > 1).then(|| format!("it also wrote {}", run.outputs[1..].join(", ")));
    Error::at(path, message)
        .hint(outputs)
        .hint([words!("use [-resume] to continue that run, or [-force] to start over"), removes(run)])
}

/// The command that removes the files of an unfinished run.
fn removes(run: &Unfinished) -> Words {
    let first = run.files.first().zip(run.outputs.first()).map(|(journal, out)| journal.with_file_name(out));
    let of_texts: Vec<PathBuf> = first.iter().flat_map(|out| hidden_files::leftovers(out)).collect();
    let files: Vec<&Path> = run.files.iter().chain(&of_texts).map(PathBuf::as_path).collect();
    words!("run `{}` to remove its files", rm(&files))
}

/// Shell command that removes files.
pub fn rm(paths: &[impl AsRef<Path>]) -> String {
    let how = if paths.iter().any(|path| path.as_ref().is_dir()) { "rm -r" } else { "rm" };
    paths
        .iter()
        .fold(how.to_owned(), |command, path| command + " " + &quoted(&path.as_ref().display().to_string()))
}

/// An argument, quoted for a shell if necessary.
pub fn quoted(argument: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=,@%~:".contains(c);
    if argument.chars().all(is_plain) && !argument.is_empty() {
        argument.to_owned()
    } else {
        format!("'{}'", argument.replace('\'', r"'\''"))
    }
}

/// Hints for an interrupted run; empty if it left nothing.
pub fn resume_hints(paths: &[PathBuf]) -> Vec<Words> {
    resume_with(paths, words!("use [-resume] to continue"))
}

/// Hints for a run that an option would continue; empty if it left nothing.
pub fn resume_with_permission(paths: &[PathBuf]) -> Vec<Words> {
    resume_with(paths, words!("use [-resume] [-allow-nonfinite] to continue"))
}

fn resume_with(paths: &[PathBuf], advice: Words) -> Vec<Words> {
    let Some(run) = gguf_conversion::unfinished(paths) else { return Vec::new() };
    let (done, total) = (human_bytes(run.done_bytes), human_bytes(run.total_bytes));
    vec![words!("{} of {} done; ", done, total) + advice, removes(&run)]
}
