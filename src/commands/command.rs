//! A row of the table of commands.

use clap::{ArgMatches, FromArgMatches};

use gguf_toolkit::convert::Operation;

use super::shared::conversion::{Conversion, Format, ReadConversion};
use crate::{failure::Failure, ui::Ui};

/// One verb of one binary.
#[derive(Debug, Clone, Copy)]
pub struct Command {
    /// Name of the binary.
    pub binary: &'static str,
    /// Name of the verb; `None` for the command that the binary runs without one.
    pub verb: Option<&'static str>,
    /// One-line description. A command without a verb has that of its binary.
    pub about: &'static str,
    /// Adds the arguments.
    pub define: fn(clap::Command) -> clap::Command,
    /// Returns the amount of output that the arguments set.
    pub ui: fn(&ArgMatches) -> Ui,
    /// Returns the verb of an input that has its own command, whose name is optional.
    pub verb_of_input: fn(&ArgMatches) -> Option<&'static str>,
    /// Returns the conversion of a call, for a plan; `None` for a command that cannot be planned.
    pub conversion: Option<ReadConversion>,
    /// Runs the command.
    pub run: fn(&ArgMatches, &Ui) -> Result<(), Failure>,
}

impl Command {
    /// A command without a verb and arguments, which does nothing. Commands replace its fields.
    pub(super) const fn of(binary: &'static str) -> Command {
        Command {
            binary,
            verb: None,
            about: "",
            define: |command| command,
            ui: |matches| Ui { quiet: is_set(matches, "quiet"), verbose: is_set(matches, "verbose") },
            verb_of_input: |_| None,
            conversion: None,
            run: |_, _| Ok(()),
        }
    }

    /// A conversion of this command, without notes.
    pub(super) fn converts(&self, operation: impl Into<Operation>, format: Format) -> Conversion {
        let (binary, verb) = (self.binary, self.verb);
        Conversion { operation: operation.into(), binary, verb, format, notes: Vec::new() }
    }

    /// The arguments of a call.
    pub(super) fn args<T: FromArgMatches>(matches: &ArgMatches) -> Result<T, Failure> {
        T::from_arg_matches(matches).map_err(|error| Failure::usage(error.to_string()))
    }
}

/// True if a command has this option and the call sets it.
pub(super) fn is_set(matches: &ArgMatches, id: &str) -> bool {
    special(matches, id) == Some(&true)
}

/// The value of an option; `None` if the command does not have it or the call does not set it.
pub(super) fn special<'a, T: Clone + Send + Sync + 'static>(
    matches: &'a ArgMatches,
    id: &str,
) -> Option<&'a T> {
    matches.try_get_one(id).ok().flatten()
}
