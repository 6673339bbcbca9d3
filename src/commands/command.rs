//! A command: what a row of the table of commands holds.

use clap::{ArgMatches, FromArgMatches};

use crate::{failure::Failure, ui::Ui};

/// One verb of one binary.
#[derive(Clone, Copy)]
pub struct Command {
    /// The binary that has it.
    pub binary: &'static str,
    /// Its name; none where it is all that the binary does.
    pub verb: Option<&'static str>,
    /// One-line description; that of the binary if there is no verb.
    pub about: &'static str,
    /// Adds its arguments.
    pub define: fn(clap::Command) -> clap::Command,
    /// Amount of output, by the arguments.
    pub ui: fn(&ArgMatches) -> Ui,
    /// Runs it.
    pub run: fn(&ArgMatches, &Ui) -> Result<(), Failure>,
}

impl Command {
    /// A command without arguments, which does nothing.
    pub(super) const fn of(binary: &'static str) -> Command {
        Command {
            binary,
            verb: None,
            about: "",
            define: |command| command,
            ui: |matches| Ui { quiet: is_set(matches, "quiet"), verbose: is_set(matches, "verbose") },
            run: |_, _| Ok(()),
        }
    }

    /// The arguments of a call.
    pub(super) fn args<T: FromArgMatches>(matches: &ArgMatches) -> Result<T, Failure> {
        T::from_arg_matches(matches).map_err(|error| Failure::usage(error.to_string()))
    }
}

/// True if a command has this option and the call sets it.
fn is_set(matches: &ArgMatches, id: &str) -> bool {
    special(matches, id) == Some(&true)
}

/// The value of an option that not every command has.
pub(super) fn special<'a, T: Clone + Send + Sync + 'static>(
    matches: &'a ArgMatches,
    id: &str,
) -> Option<&'a T> {
    matches.try_get_one(id).ok().flatten()
}
