//! The verbs of all binaries, one file each, and the table of them.

mod show;
mod table;

use std::process::ExitCode;

use clap::ArgMatches;

pub use table::table;

use crate::{
    failure::{EXIT_FAILURE, Failure},
    ui::Ui,
};

/// One verb of one binary.
#[derive(Clone, Copy)]
pub struct Command {
    /// The binary that has it.
    pub binary: &'static str,
    /// Its name; none where it is all that the binary does.
    pub verb: Option<&'static str>,
    /// Adds its arguments and its help.
    pub define: fn(clap::Command) -> clap::Command,
    /// How much it wants to tell, by its arguments.
    pub ui: fn(&ArgMatches) -> Ui,
    /// Does it.
    pub run: fn(&ArgMatches, &Ui) -> Result<(), Failure>,
}

/// A binary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Binary {
    /// Its name.
    pub name: &'static str,
    /// What it does, in a line.
    pub about: &'static str,
}

/// Every binary.
pub const BINARIES: &[Binary] = &[Binary { name: "gguf-inspect", about: "Shows what is in GGUF files." }];

/// Every verb of every binary.
pub const COMMANDS: &[Command] = &[show::COMMAND];

/// The definition of a binary: help, completions and parsing come from it. None for a name that
/// is not in [`BINARIES`].
pub fn define(binary: &str) -> Option<clap::Command> {
    let binary = BINARIES.iter().find(|have| have.name == binary)?;
    let mut definition =
        clap::Command::new(binary.name).about(binary.about).version(env!("CARGO_PKG_VERSION"));
    for command in COMMANDS.iter().filter(|command| command.binary == binary.name) {
        definition = match command.verb {
            None => (command.define)(definition),
            Some(verb) => definition
                .subcommand_required(true)
                .arg_required_else_help(true)
                .subcommand((command.define)(clap::Command::new(verb))),
        };
    }
    Some(definition)
}

/// Runs a binary: parse, run, exit code. Wrong calls end in clap, with exit code 2.
pub fn main(binary: &'static str) -> ExitCode {
    let Some(definition) = define(binary) else {
        Ui::default().failure(&Failure::new(format_args!("`{binary}` is not a binary of this package")));
        return ExitCode::from(EXIT_FAILURE);
    };
    let matches = definition.get_matches();
    let (verb, matches) = match matches.subcommand() {
        Some((verb, inner)) => (Some(verb), inner),
        None => (None, &matches),
    };
    let Some(command) = COMMANDS.iter().find(|command| command.binary == binary && command.verb == verb)
    else {
        Ui::default().failure(&Failure::usage("this verb is not known"));
        return ExitCode::from(crate::failure::EXIT_USAGE);
    };
    let ui = (command.ui)(matches);
    match (command.run)(matches, &ui) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            ui.failure(&failure);
            ExitCode::from(failure.code)
        }
    }
}
