//! Identity of a call, for its journal: a run can only be resumed by a call that gives the same bytes.

use std::path::{Path, PathBuf};

use clap::{ArgAction, ArgMatches, parser::ValueSource};
use gguf_toolkit::call::Call;

/// Options that change no byte of the output, by their names in clap.
pub const HARMLESS: &[&str] = &[
    "threads",
    "force",
    "quiet",
    "verbose",
    "json",
    "resume",
    "keep",
    "save_recipe",
    "dry_run",
    "statistics",
    "eval_text",
    "no_verify",
];

/// The options that a command of a program was called with.
pub fn call_of(binary: &'static str, verb: Option<&str>, matches: &ArgMatches) -> Call {
    let mut options = Vec::new();
    options.extend(verb.map(|verb| ("command".to_owned(), verb.to_owned())));
    let definition = crate::commands::define(binary).unwrap_or_default();
    let command = verb.and_then(|verb| definition.find_subcommand(verb)).unwrap_or(&definition);
    for arg in command.get_arguments() {
        let id = arg.get_id().as_str();
        // The exclusive options of completions and man pages are no options of a run.
        let Some(long) = arg.get_long().filter(|long| !["completions", "man"].contains(long)) else {
            continue;
        };
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
    Call { program: binary.to_owned(), executable: Some(executable()), options, ..Call::default() }
}

/// The file of this program.
pub(in crate::commands) fn executable() -> PathBuf {
    // On Linux this is the file that runs, even where another one has its name now.
    let running = Path::new("/proc/self/exe");
    match running.exists() {
        true => running.to_owned(),
        false => std::env::current_exe().unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_harmless_option_exists() {
        let commands =
            ["gguf-convert", "gguf-quantize"].map(|binary| crate::commands::define(binary).unwrap());
        for id in HARMLESS {
            let mut arguments = commands.iter().flat_map(clap::Command::get_arguments);
            assert!(arguments.any(|arg| arg.get_id() == id), "`{id}` is no option");
        }
    }

    #[test]
    fn options_that_change_bytes_are_recorded() {
        let options = |line: &str| {
            let command = crate::commands::define("gguf-convert").unwrap();
            let matches = command.try_get_matches_from(line.split(' ')).unwrap();
            call_of("gguf-convert", None, &matches).options
        };
        let named = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let plain = [named("--type", "q4_k_m,q8_0")];
        assert_eq!(options("gguf-convert src out -t Q4_K_M,q8_0"), plain);
        assert_eq!(options("gguf-convert src out -t q4_k_m -t q8_0 -j 3 -q --force --resume --json"), plain);
        let mut more = options("gguf-convert src -t f16 --pure --lora a=2 --lora b --via bf16");
        more.sort();
        let expected = [
            named("--lora", "a=2,b"),
            named("--pure", "given"),
            named("--type", "f16"),
            named("--via", "bf16"),
        ];
        assert_eq!(more, expected);
    }
}
