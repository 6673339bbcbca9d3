//! The options of llama.cpp's programs: what ours make of them.
//!
//! One table for each program maps its options to ours and lists those without a counterpart. [`translate`] applies the table of
//! a verb to the arguments of a call before clap sees them; `--help` and `docs/guides/coming-from-llama-cpp.md` print it. A program that
//! is called by one of these names, through a link, is the verb that stands for it. `golden/options` has all options of the
//! programs, and a test compares.

mod call;
mod common;
mod convert_hf;
mod gguf_split;
mod imatrix;
mod perplexity;
mod quantize;
mod words;

pub use call::translate;
pub use words::also;

use call::Call;

use crate::failure::Failure;

/// A program of llama.cpp.
#[derive(Debug)]
pub struct Program {
    /// Its name.
    pub name: &'static str,
    /// The binary that stands for it.
    pub binary: &'static str,
    /// The verb of the binary.
    pub verb: Option<&'static str>,
    /// Its options; lists that several programs share are separate.
    pub rows: &'static [&'static [Row]],
    /// Its options without a counterpart, in the form of [`Row::options`].
    pub without: &'static [&'static [&'static str]],
    /// Options of other programs that people try with it.
    pub habits: &'static [Row],
    /// Handles options that depend on each other.
    arrange: fn(&mut Call) -> Result<(), Failure>,
}

/// Options of one fate.
#[derive(Debug)]
pub struct Row {
    /// Each option: its spellings, separated by spaces, and a word for its value if it has one.
    pub options: &'static [&'static str],
    /// Their meaning.
    pub to: To,
}

/// Meaning of an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum To {
    /// Ours has the same.
    Same,
    /// It is this option of ours; with one of these values it is left out.
    Option(&'static str, &'static [&'static str]),
    /// It is this option of ours, once for each of its values between commas.
    Each(&'static str),
    /// It is an argument of ours, counted from 0.
    Argument(usize),
    /// It is these words of ours.
    Words(&'static [&'static str]),
    /// The whole call is these words.
    Whole(&'static [&'static str]),
    /// It is what ours do anyway.
    Anyway(&'static str),
    /// It decides with others what the call is; the words say what.
    Arranged(&'static str),
    /// There is no such option.
    Unknown,
}

/// An option of a row, taken apart.
#[derive(Debug, Clone, Copy)]
pub struct Spelled {
    text: &'static str,
}

impl Spelled {
    /// The spellings.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        self.text.split(' ').filter(|word| word.starts_with('-'))
    }

    /// The word for its value.
    pub fn value(self) -> Option<&'static str> {
        self.text.split(' ').next_back().filter(|word| !word.starts_with('-'))
    }
}

impl Row {
    /// The options of the row.
    pub fn spelled(&self) -> impl Iterator<Item = Spelled> + use<> {
        self.options.iter().map(|text| Spelled { text })
    }
}

impl Program {
    /// Every option of the program with its fate.
    pub fn options(&self) -> impl Iterator<Item = (Spelled, To)> + use<> {
        of(self.rows.iter().copied().flatten())
    }

    /// Every option without a counterpart.
    pub fn without(&self) -> impl Iterator<Item = Spelled> + use<> {
        self.without.iter().copied().flatten().map(|text| Spelled { text })
    }

    /// The same with the options that people try.
    fn all(&self) -> impl Iterator<Item = (Spelled, To)> + use<> {
        self.options().chain(of(self.habits.iter()))
    }
}

fn of(rows: impl Iterator<Item = &'static Row>) -> impl Iterator<Item = (Spelled, To)> {
    rows.flat_map(|row| row.spelled().map(|spelled| (spelled, row.to)))
}

const fn row(options: &'static [&'static str], to: To) -> Row {
    Row { options, to }
}

/// Every program of llama.cpp that one of ours stands for.
pub const PROGRAMS: &[Program] =
    &[convert_hf::PROGRAM, quantize::PROGRAM, imatrix::PROGRAM, perplexity::PROGRAM, gguf_split::PROGRAM];

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs};

    use super::*;
    use crate::commands::{COMMANDS, define};

    /// Spellings, sorted, and whether there is a value.
    fn key<'a>(names: impl Iterator<Item = &'a str>, has_value: bool) -> String {
        let names: BTreeSet<&str> = names.collect();
        let value = if has_value { " VALUE" } else { "" };
        names.into_iter().collect::<Vec<_>>().join(" ") + value
    }

    #[test]
    fn tables_match_options_of_the_programs() {
        for program in PROGRAMS {
            let path = format!("{}/golden/options/{}.txt", env!("CARGO_MANIFEST_DIR"), program.name);
            let text = fs::read_to_string(path).unwrap();
            let theirs = text.lines().map(|line| Spelled { text: line.to_owned().leak() });
            let theirs: BTreeSet<String> =
                theirs.map(|option| key(option.names(), option.value().is_some())).collect();
            let options = program.options().map(|(option, _)| option).chain(program.without());
            let options: Vec<Spelled> = options.collect();
            let ours: BTreeSet<String> =
                options.iter().map(|option| key(option.names(), option.value().is_some())).collect();
            assert_eq!(ours, theirs, "{}", program.name);
            assert_eq!(ours.len(), options.len(), "{}: duplicate option", program.name);
        }
    }

    #[test]
    fn table_spellings_are_unique() {
        for program in PROGRAMS {
            let mut seen = BTreeSet::new();
            let options = program.all().map(|(option, _)| option).chain(program.without());
            for name in options.flat_map(Spelled::names) {
                assert!(seen.insert(name), "{}: {name} twice", program.name);
            }
        }
    }

    #[test]
    fn tables_name_existing_options() {
        for program in PROGRAMS {
            assert!(
                COMMANDS
                    .iter()
                    .any(|command| command.binary == program.binary && command.verb == program.verb)
            );
            let command = define(program.binary).unwrap();
            let verb =
                program.verb.map_or(command.clone(), |verb| command.find_subcommand(verb).unwrap().clone());
            let has = |name: &str| call::argument(&verb, name).is_some();
            for (spelled, to) in program.all() {
                let first = spelled.names().next().unwrap_or_default();
                let is_right = match to {
                    To::Same => spelled.names().all(|name| ["-h", "--help"].contains(&name) || has(name)),
                    To::Option(long, _) | To::Each(long) => has(long),
                    To::Words(words) => words.iter().all(|word| word.starts_with("--help") || has(word)),
                    To::Argument(_) | To::Whole(_) | To::Anyway(_) | To::Arranged(_) => true,
                    To::Unknown => false,
                };
                assert!(is_right, "{}: {first} is {to:?}", program.name);
                let needs_value = matches!(to, To::Option(..) | To::Each(_) | To::Argument(_));
                assert!(!needs_value || spelled.value().is_some(), "{}: {first} has no value", program.name);
            }
        }
    }
}
