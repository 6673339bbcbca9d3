//! A call of a program of llama.cpp, while it is translated.

use std::{collections::BTreeMap, ffi::OsString};

use clap::{Arg, ArgAction};

/// An argument of a call.
pub(super) enum Word {
    /// Our option for one of theirs, with its value.
    Translated(&'static str, Option<OsString>),
    /// An argument as it was given.
    Given(OsString),
}

/// A call that is being translated.
#[derive(Default)]
pub(super) struct Call {
    /// The verb to call.
    pub verb: Option<String>,
    /// True if the program was called by its own name.
    pub is_by_name: bool,
    /// Options and their values.
    pub words: Vec<Word>,
    /// Arguments that an option of theirs gives, by their places.
    pub places: BTreeMap<usize, OsString>,
    /// The other arguments.
    pub positional: Vec<OsString>,
    /// Arguments instead of the whole call.
    pub whole: Option<&'static [&'static str]>,
    /// True if an option is not one of ours.
    pub is_foreign: bool,
}

impl Call {
    /// Removes an option and returns its value.
    pub fn take(&mut self, option: &str) -> Option<Option<OsString>> {
        let at =
            self.words.iter().position(|word| matches!(word, Word::Translated(name, _) if *name == option));
        match self.words.remove(at?) {
            Word::Translated(_, value) => Some(value),
            Word::Given(_) => None,
        }
    }

    /// Adds an option.
    pub fn push(&mut self, option: &'static str, value: Option<OsString>) {
        self.words.push(Word::Translated(option, value));
    }

    /// True if the call has one of these options.
    pub fn has(&self, options: &[&str]) -> bool {
        self.words.iter().any(|word| match word {
            Word::Translated(name, _) => options.contains(name),
            Word::Given(text) => text.to_str().is_some_and(|text| {
                options.iter().any(|option| text == *option || text.starts_with(&format!("{option}=")))
            }),
        })
    }

    /// Puts an argument before the others.
    pub fn put_first(&mut self, value: OsString) {
        self.places = std::mem::take(&mut self.places).into_iter().map(|(at, word)| (at + 1, word)).collect();
        self.places.insert(0, value);
    }

    /// True if an option of llama.cpp gives the argument at this place.
    pub fn has_argument(&self, at: usize) -> bool {
        self.places.contains_key(&at)
    }

    /// The arguments of the translated call.
    pub fn into_arguments(self) -> Vec<OsString> {
        if let Some(words) = self.whole {
            return words.iter().map(OsString::from).collect();
        }
        let mut arguments: Vec<OsString> = self.verb.iter().map(OsString::from).collect();
        for word in self.words {
            match word {
                Word::Given(text) => arguments.push(text),
                Word::Translated(name, None) => arguments.push(name.into()),
                // After `=` a value may start with a dash.
                Word::Translated(name, Some(value)) => {
                    let mut text = OsString::from(name);
                    text.push("=");
                    text.push(value);
                    arguments.push(text);
                }
            }
        }
        let (mut places, mut rest) = (self.places, self.positional.into_iter());
        let mut positional = Vec::new();
        while let Some(next) = places.remove(&positional.len()).or_else(|| rest.next()) {
            positional.push(next);
        }
        // Places after a missing one.
        positional.extend(places.into_values());
        if !positional.is_empty() {
            arguments.push("--".into());
        }
        arguments.extend(positional);
        arguments
    }
}

/// Returns the argument of a command with this long name, letter or alias.
pub fn argument<'a>(command: &'a clap::Command, option: &str) -> Option<&'a Arg> {
    let option = option.split('=').next().unwrap_or_default();
    command.get_arguments().find(|arg| match option.strip_prefix("--") {
        Some(long) => {
            arg.get_long() == Some(long)
                || arg.get_all_aliases().is_some_and(|aliases| aliases.contains(&long))
        }
        None => {
            let mut letters = option.chars().skip(1);
            let letter = letters.next().filter(|_| letters.next().is_none());
            letter.is_some() && (arg.get_short() == letter)
        }
    })
}

/// True if an option takes a value, and true if it takes several.
pub(super) fn values(arg: &Arg) -> (bool, bool) {
    let takes = matches!(arg.get_action(), ArgAction::Set | ArgAction::Append);
    (takes, takes && arg.get_num_args().is_some_and(|range| range.max_values() > 1))
}
