//! The verbs of all binaries, one file each, and the table of them.

mod architectures;
mod chat;
mod check;
mod check_against;
mod command;
mod compare;
mod convert;
mod convert_legacy;
mod convert_lora;
mod convert_mmproj;
mod convert_to_hf;
mod cpu;
mod diff;
mod draft;
mod embed;
mod endian;
mod export_metadata;
mod extract;
mod fit;
mod generate;
mod hash;
mod imatrix;
mod merge;
mod perplexity;
mod prompt;
mod publish;
mod quantize;
mod recipe;
mod rename;
mod score;
mod set;
mod shared;
mod show;
mod split;
mod tokenizer;
mod unset;
mod verify;
mod vocab_only;

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::{Arg, ArgMatches};
use clap_complete::Shell;
use gguf_toolkit::process;

use crate::{
    failure::{Failure, exit_code},
    ui::{Ui, exit_on_panic, interrupted_code, survive_file_limits},
};

/// Functions and texts that only tests call from outside.
pub mod internals {
    pub use super::shared::{
        call_advice::COUNTERPARTS,
        help::{EXAMPLES, brief, examples},
        threads::parse_threads,
        types_help::{MEASURED, types_help},
    };
}

pub use command::Command;
use command::{is_set, special};
/// Translation of the options of llama.cpp's programs.
pub use shared::llama_cpp;
use shared::{
    call_advice::refused,
    cpu_level::cpu_level,
    help::{brief, laid_out},
    planned_calls::{PlanArgs, PlannedProgram, assemble, part, plan},
};

/// A binary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Binary {
    /// Its name.
    pub name: &'static str,
    /// One-line description.
    pub about: &'static str,
}

/// Every binary.
pub const BINARIES: &[Binary] = &[
    Binary { name: "gguf-convert", about: "Convert Hugging Face checkpoints to GGUF files" },
    Binary { name: "gguf-quantize", about: "Quantize GGUF files" },
    Binary { name: "gguf-inspect", about: "Show, check and edit GGUF files" },
    Binary {
        name: "gguf-publish",
        about: "Build a model repository with GGUF files, measurements and a model card",
    },
    Binary { name: "gguf-eval", about: "Run and evaluate GGUF files" },
];

/// Every verb of every binary.
pub const COMMANDS: &[Command] = &[
    convert::COMMAND,
    convert_to_hf::COMMAND,
    convert_lora::COMMAND,
    vocab_only::COMMAND,
    convert_mmproj::COMMAND,
    convert_legacy::COMMAND,
    Command { run: save_plan::<convert::Planning>, ..plan::<convert::Planning>() },
    part::<convert::Planning>(),
    assemble::<convert::Planning>(),
    architectures::COMMAND,
    quantize::COMMAND,
    Command { run: save_plan::<quantize::Planning>, ..plan::<quantize::Planning>() },
    part::<quantize::Planning>(),
    assemble::<quantize::Planning>(),
    publish::COMMAND,
    show::COMMAND,
    tokenizer::COMMAND,
    prompt::COMMAND,
    verify::COMMAND,
    hash::COMMAND,
    diff::COMMAND,
    extract::COMMAND,
    set::COMMAND,
    unset::COMMAND,
    rename::COMMAND,
    export_metadata::COMMAND,
    fit::COMMAND,
    recipe::COMMAND,
    split::COMMAND,
    merge::COMMAND,
    endian::COMMAND,
    cpu::COMMAND,
    perplexity::COMMAND,
    compare::COMMAND,
    check::COMMAND,
    check_against::COMMAND,
    imatrix::COMMAND,
    draft::COMMAND,
    score::COMMAND,
    generate::COMMAND,
    chat::COMMAND,
    embed::COMMAND,
];

/// Returns the definition of a binary, from which help, completions and parsing are derived; `None` for a name that is not
/// in [`BINARIES`].
pub fn define(binary: &str) -> Option<clap::Command> {
    let binary = BINARIES.iter().find(|have| have.name == binary)?;
    let mut definition =
        clap::Command::new(binary.name).about(binary.about).version(env!("CARGO_PKG_VERSION"));
    for command in COMMANDS.iter().filter(|command| command.binary == binary.name) {
        let defined = |definition, about| {
            // The description of an option group must not replace that of the command.
            let defined = (command.define)(definition).about(about).long_about(None);
            laid_out(defined, binary.name, command.verb)
        };
        definition = match command.verb {
            None => defined(definition, binary.about),
            Some(verb) => {
                let inner = defined(clap::Command::new(verb), command.about);
                definition.arg_required_else_help(true).subcommand(inner)
            }
        };
    }
    let completions = special_option("completions", "SHELL", "Print the completion script for a shell");
    let man = special_option("man", "DIR", "Write the man pages to DIR");
    let definition = definition.arg(completions.value_parser(clap::value_parser!(Shell)));
    Some(definition.arg(man.value_parser(clap::value_parser!(PathBuf))))
}

/// An option of every binary that replaces its work.
fn special_option(id: &'static str, value_name: &'static str, help: &'static str) -> Arg {
    let arg = Arg::new(id).long(id).value_name(value_name).help(help);
    arg.exclusive(true).help_heading(None::<&str>).hide_short_help(true)
}

/// Runs the program that a call of `gguf-tools` names: parse, run, exit code. Wrong calls end in clap, with exit code 2.
///
/// The program is the first argument (`convert` or `gguf-convert`), or the name of a link: that of a program, or of one of
/// llama.cpp's that it replaces. `--called-as NAME` before all other options states the name of a link to a launcher.
pub fn main() -> ExitCode {
    exit_on_panic();
    let mut arguments: Vec<OsString> = std::env::args_os().collect();
    let mut called = PathBuf::from(if arguments.is_empty() { OsString::new() } else { arguments.remove(0) });
    let program = match program_of_link(&called) {
        Some(program) => program,
        None => {
            let first = arguments.first().and_then(|argument| argument.to_str()).unwrap_or_default();
            let Some(program) = program_named(first) else { return unknown_program(first) };
            arguments.remove(0);
            program
        }
    };
    if arguments.len() > 1 && arguments[0] == CALLED_AS {
        called = PathBuf::from(arguments.remove(1));
        arguments.remove(0);
    }
    ExitCode::from(run(program, &called, arguments))
}

/// The option that states the name by which a launcher was called. It precedes all others.
const CALLED_AS: &str = "--called-as";

fn program_named(name: &str) -> Option<&'static str> {
    let name = name.strip_prefix("gguf-").unwrap_or(name);
    BINARIES.iter().map(|binary| binary.name).find(|binary| binary.strip_prefix("gguf-") == Some(name))
}

/// The program that a link stands for by its name.
fn program_of_link(called: &Path) -> Option<&'static str> {
    let name = called.file_stem()?.to_str()?;
    let by_own_name = BINARIES.iter().map(|binary| binary.name).find(|binary| *binary == name);
    by_own_name.or_else(|| llama_cpp::replaced_by(name))
}

fn unknown_program(name: &str) -> ExitCode {
    let ui = Ui::default();
    let programs = BINARIES.iter().map(|binary| format!("  {:<15}{}\n", &binary.name[5..], binary.about));
    let usage =
        format!("Usage: gguf-tools PROGRAM [ARGUMENTS]\n\nPrograms:\n{}", programs.collect::<String>());
    ExitCode::from(match name {
        "-h" | "--help" => finish(ui.data(&usage), &ui, false),
        "-V" | "--version" => {
            finish(ui.data(&format!("gguf-tools {}\n", env!("CARGO_PKG_VERSION"))), &ui, false)
        }
        _ => {
            let failure = Failure::usage(format_args!("expected the name of a program, found `{name}`"));
            finish(Err(failure.hint(["`gguf-tools --help` lists the programs"])), &ui, false)
        }
    })
}

/// Runs a binary inside another program and returns the exit code. `called` is the name that it was called by.
pub fn run(binary: &'static str, called: &Path, arguments: Vec<OsString>) -> u8 {
    let (command, matches) = match parsed(binary, called, arguments) {
        Ok(parsed) => parsed,
        Err(failure) => return finish(Err(failure), &Ui::default(), false),
    };
    // An invalid level is an error of the commands that compute.
    let _ = cpu_level();
    process::exit_on_bus_error();
    survive_file_limits();
    process::raise_open_files();
    if let Some(shell) = special::<Shell>(&matches, "completions") {
        let mut script = Vec::new();
        clap_complete::generate(*shell, &mut define(binary).unwrap_or_default(), binary, &mut script);
        let ui = Ui::default();
        return finish(ui.data(&String::from_utf8_lossy(&script)), &ui, false);
    }
    if let Some(folder) = special::<PathBuf>(&matches, "man") {
        let written = clap_mangen::generate_to(define(binary).unwrap_or_default(), folder);
        let written = written.map_err(|error| Failure::cannot_open(folder, error));
        return finish(written, &Ui::default(), false);
    }
    let Some(command) = command else {
        return finish(Err(Failure::usage("unknown command")), &Ui::default(), false);
    };
    let ui = (command.ui)(&matches);
    finish((command.run)(&matches, &ui), &ui, is_set(&matches, "json"))
}

/// The row of a command.
fn find(binary: &str, verb: Option<&str>) -> Option<&'static Command> {
    COMMANDS.iter().find(|command| command.binary == binary && command.verb == verb)
}

/// Saves the plan of a call.
fn save_plan<P: PlannedProgram>(matches: &ArgMatches, ui: &Ui) -> Result<(), Failure> {
    let PlanArgs { plan, call } = Command::args(matches)?;
    let (command, matches) = parsed(P::BINARY, Path::new(""), call)?;
    let Some(conversion) = command.and_then(|command| command.conversion) else {
        let verb = command.and_then(|command| command.verb).unwrap_or_default();
        return Err(Failure::usage(format_args!("`{verb}` cannot be used with a plan")));
    };
    if let Some(id) = ["dry_run", "keep"].into_iter().find(|id| is_set(&matches, id)) {
        let option = id.replace('_', "-");
        return Err(Failure::usage(format_args!("--{option} cannot be used with a plan")));
    }
    conversion(&matches)?.save(&plan, ui)
}

/// Returns the command and the matches of a call. Invalid calls and calls for help end the process.
///
/// # Errors
/// Options of llama.cpp's programs that cannot be translated.
fn parsed(
    binary: &'static str,
    called: &Path,
    arguments: Vec<OsString>,
) -> Result<(Option<&'static Command>, ArgMatches), Failure> {
    let unknown = || Failure::new(format_args!("`{binary}` is not a program of this package"));
    let mut definition = define(binary).ok_or_else(unknown)?;
    // Without arguments, `-h` is printed.
    let is_brief = arguments.is_empty() || arguments.iter().any(|argument| argument == "-h");
    let mut arguments = llama_cpp::translate(binary, &definition, called, arguments)?;
    if is_brief {
        definition = brief(definition);
    }
    loop {
        let words = [OsString::from(binary)].into_iter().chain(arguments.iter().cloned());
        let matches = definition.clone().try_get_matches_from(words);
        let matches = matches.map_err(|error| refused(error, &definition, &arguments))?;
        if let Some((verb, inner)) = matches.subcommand() {
            return Ok((find(binary, Some(verb)), inner.clone()));
        }
        let command = find(binary, None);
        match command.and_then(|command| (command.verb_of_input)(&matches)) {
            Some(verb) => arguments.insert(0, verb.into()),
            None => return Ok((command, matches)),
        }
    }
}

fn finish(result: Result<(), Failure>, ui: &Ui, json: bool) -> u8 {
    match result {
        Ok(()) => 0,
        Err(failure) => {
            if json {
                ui.json_failure(&failure);
            }
            ui.failure(&failure);
            if failure.is_interrupted() { interrupted_code() } else { exit_code(&failure) }
        }
    }
}
