//! Translates a call of llama.cpp's programs to ours.

use std::{ffi::OsString, path::Path};

use clap::Arg;

use super::{
    PROGRAMS, Program, Spelled, To,
    call::{Call, Word, argument, values},
};
use crate::{
    commands::shared::{call_advice::unknown_option, planned_calls},
    failure::Failure,
};

/// Facts about a call before its arguments are read: verb, definition and tables.
struct Table<'a> {
    /// The binary and the verb.
    words: String,
    command: &'a clap::Command,
    program: Option<&'static Program>,
    /// Table that is tried for verbs without a program.
    near: Option<&'static Program>,
}

impl Table<'_> {
    /// Returns the translation of an option of llama.cpp; `None` if it is one of ours or unknown.
    fn find(&self, name: &str) -> Option<(Spelled, To)> {
        let is_named = |(spelled, _): &(Spelled, To)| spelled.names().any(|other| other == name);
        let is_ours = |name: &str| argument(self.command, name).is_some();
        let without = |program: &Program| program.without().map(|spelled| (spelled, To::Unknown));
        if let Some(program) = self.program {
            let found = program.all().find(is_named);
            return found.or_else(|| without(program).find(is_named).filter(|_| !is_ours(name)));
        }
        // A verb without a program accepts options that fit it, in any spelling that it has.
        if is_ours(name) {
            return None;
        }
        let near = self.near?;
        let (spelled, to) = near.all().chain(without(near)).find(is_named)?;
        if let Some(own) = spelled.names().find(|name| is_ours(name)) {
            return Some((spelled, To::Option(own, &[])));
        }
        let fits = match to {
            To::Option(long, _) => is_ours(long),
            To::Argument(at) => {
                let mut places = self.command.get_positionals();
                let input = places.next().map(|first| first.get_id().as_str());
                input.is_some_and(|id| ["file", "src", "dir"].contains(&id))
                    && (at == 0 || places.nth(at - 1).is_some())
            }
            To::Anyway(_) | To::Words(_) => true,
            _ => false,
        };
        Some((spelled, if fits { to } else { To::Unknown }))
    }
}

/// Translates the arguments of a call of `binary`, which was called by the name `called`. A call without options of llama.cpp
/// stays as it is.
///
/// # Errors
/// An option without a counterpart.
pub fn translate(
    binary: &'static str,
    definition: &clap::Command,
    called: &Path,
    mut arguments: Vec<OsString>,
) -> Result<Vec<OsString>, Failure> {
    let names = [called.file_name(), called.file_stem()].map(|name| name.and_then(|name| name.to_str()));
    let is_called = |program: &Program| names.iter().flatten().any(|name| program.is_named(name));
    let named = PROGRAMS.iter().find(|program| program.binary == binary && is_called(program));
    let verb = match named.and_then(|program| program.verb) {
        Some(verb) => Some(verb),
        None => {
            let first = arguments.first().and_then(|argument| definition.find_subcommand(argument));
            first.map(clap::Command::get_name)
        }
    };
    if verb.is_some() && named.is_none_or(|program| program.verb.is_none()) {
        arguments.remove(0);
    }
    let command = match verb {
        Some(verb) => definition.find_subcommand(verb),
        None => Some(definition),
    };
    let Some(command) = command else { return Ok(arguments) };
    let program = PROGRAMS.iter().find(|program| program.binary == binary && program.verb == verb);
    let is_near = |program: &&Program| ["llama-perplexity", "convert_hf_to_gguf.py"].contains(&program.name);
    let near = PROGRAMS.iter().filter(is_near).find(|program| program.binary == binary);
    let words = [binary].into_iter().chain(verb).collect::<Vec<_>>().join(" ");
    // The call in a plan is translated when it is run.
    let is_of_plan = verb.is_some_and(|verb| planned_calls::VERBS.contains(&verb));
    let near = near.filter(|_| verb.is_some() && !is_of_plan);
    let table = Table { words, command, program, near };
    let given = arguments.clone();
    let mut call = read(&table, arguments)?;
    call.verb = verb.map(str::to_owned);
    call.is_by_name = named.is_some();
    if call.is_foreign || call.is_by_name {
        if let Some(program) = program.or(near.filter(|_| verb == Some("mmproj"))) {
            (program.arrange)(&mut call)?;
        }
        return Ok(call.into_arguments());
    }
    Ok(verb.map(OsString::from).into_iter().chain(given).collect())
}

/// Reads the arguments, and translates those in the table.
fn read(table: &Table<'_>, arguments: Vec<OsString>) -> Result<Call, Failure> {
    let mut call = Call::default();
    let mut arguments = arguments.into_iter().peekable();
    while let Some(word) = arguments.next() {
        let text = word.to_str().filter(|text| text.len() > 1 && text.starts_with('-'));
        let Some(text) = text else {
            call.positional.push(word);
            continue;
        };
        if text == "--" {
            call.positional.extend(arguments.by_ref());
            break;
        }
        let (name, attached) = match text.split_once('=').filter(|_| text.starts_with("--")) {
            Some((name, value)) => (name.replace('_', "-"), Some(OsString::from(value))),
            // llama.cpp takes either sign between the words of a name.
            None if text.starts_with("--") => (text.replace('_', "-"), None),
            None => (text.to_owned(), None),
        };
        let (spelled, to) = match table.find(&name) {
            Some((spelled, to)) if !is_of_ours(table, &name, to) => (spelled, to),
            _ => {
                call.given(table.command, &word, &mut arguments);
                continue;
            }
        };
        if to == To::Unknown {
            return Err(unknown_option(&table.words, &name, None));
        }
        let value = match (spelled.value(), attached) {
            (None, _) => None,
            (Some(_), Some(value)) => Some(value),
            (Some(_), None) => {
                let missing = || Failure::usage(format_args!("`{name}`: missing value"));
                Some(arguments.next().ok_or_else(missing)?)
            }
        };
        // An option with the same spelling may stay in place if nothing else moves.
        let long = argument(table.command, &name).and_then(Arg::get_long);
        let is_same = matches!(to, To::Option(ours, _) if long.is_some() && long == ours.strip_prefix("--"));
        call.is_foreign |= !is_same || to.leaves_out(value.as_ref());
        call.apply(spelled, to, value);
    }
    Ok(call)
}

/// True if an option is used as it is.
fn is_of_ours(table: &Table<'_>, name: &str, to: To) -> bool {
    match to {
        To::Same => true,
        To::Words(_) => ["-h", "--help"].contains(&name) || argument(table.command, name).is_some(),
        _ => false,
    }
}

impl To {
    /// True if the option is left out with this value.
    fn leaves_out(&self, value: Option<&OsString>) -> bool {
        let To::Option(_, left_out) = self else { return false };
        value.is_some_and(|value| left_out.iter().any(|word| value == *word))
    }
}

impl Call {
    /// Keeps an argument, with the values that follow it.
    fn given(
        &mut self,
        command: &clap::Command,
        option: &OsString,
        rest: &mut std::iter::Peekable<impl Iterator<Item = OsString>>,
    ) {
        let text = option.to_string_lossy();
        // The first letter of `-n20` and `-qf` decides.
        let letters = text.char_indices().nth(2).filter(|_| !text.starts_with("--"));
        let n_letters = letters.map_or(text.len(), |letter| letter.0);
        let found = argument(command, &text[..n_letters]);
        let is_attached = text.contains('=') || n_letters < text.len();
        self.words.push(Word::Given(option.clone()));
        let (takes, several) = found.map_or((false, false), values);
        if !takes || is_attached {
            return;
        }
        self.words.extend(rest.next().map(Word::Given));
        while several && rest.peek().is_some_and(|next| !next.to_string_lossy().starts_with('-')) {
            self.words.extend(rest.next().map(Word::Given));
        }
    }

    fn apply(&mut self, spelled: Spelled, to: To, value: Option<OsString>) {
        match to {
            to if to.leaves_out(value.as_ref()) => {}
            To::Option(long, _) => self.push(long, value),
            To::Each(long) => {
                let text = value.unwrap_or_default().to_string_lossy().into_owned();
                text.split(',').for_each(|one| self.push(long, Some(one.into())));
            }
            To::Argument(at) => {
                self.places.extend(value.map(|value| (at, value)));
            }
            To::Words(words) => self.words.extend(words.iter().map(|word| Word::Given(word.into()))),
            To::Whole(words) => self.whole = Some(words),
            // The first spelling stands for all.
            To::Arranged(_) => {
                self.words.extend(spelled.names().next().map(|option| Word::Translated(option, value)));
            }
            To::Same | To::Anyway(_) | To::Unknown => {}
        }
    }
}
