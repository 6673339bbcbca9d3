//! Identity of a call, for its journal: a run can only be resumed by a call that gives the same bytes.

use std::path::{Path, PathBuf};

use clap::{ArgAction, ArgMatches, parser::ValueSource};
use gguf_toolkit::call::{Call, HARMLESS};

use crate::commands::Command;

/// The options that a command was called with.
pub fn call_of(command: &Command, matches: &ArgMatches) -> Call {
    let mut options = Vec::new();
    options.extend(command.verb.map(|verb| ("command".to_owned(), verb.to_owned())));
    for arg in (command.define)(clap::Command::default()).get_arguments() {
        let id = arg.get_id().as_str();
        let Some(long) = arg.get_long() else { continue };
        if HARMLESS.contains(&id) || matches.value_source(id) != Some(ValueSource::CommandLine) {
            continue;
        }
        let value = match arg.get_action() {
            ArgAction::SetTrue => "given".to_owned(),
            _ => {
                let values = matches.get_raw(id).into_iter().flatten();
                let values: Vec<String> = values.map(|value| value.to_string_lossy().into_owned()).collect();
                values.join(",")
            }
        };
        // Names of types have no case.
        let value = if id == "types" { value.to_ascii_lowercase() } else { value };
        options.push((format!("--{long}"), value));
    }
    Call { options, ..program(command.binary) }
}

/// A program, without options.
pub fn program(binary: &str) -> Call {
    Call { program: binary.to_owned(), executable: Some(executable()), ..Call::default() }
}

/// The file of this program.
pub(in crate::commands) fn executable() -> PathBuf {
    // On Linux this is the running file, even if another one has its name now.
    let running = Path::new("/proc/self/exe");
    match running.exists() {
        true => running.to_owned(),
        false => std::env::current_exe().unwrap_or_default(),
    }
}
