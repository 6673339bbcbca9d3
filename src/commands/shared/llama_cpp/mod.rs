//! The options of llama.cpp's programs: what ours make of them.
//!
//! One table for each program says of every option that it has which of ours it is, or, where there is none, what to do
//! instead. [`translate`] applies the table of a verb to the arguments of a call before clap sees them; `--help` and
//! `docs/coming-from-llama-cpp.md` print it. A program that is called by one of these names, through a link, is the
//! verb that stands for it. `golden/options` holds the tables to what the programs have.

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
    /// Its options; what several programs share is a list of its own.
    pub rows: &'static [&'static [Row]],
    /// Options that it does not have and that people try with ours, from other programs.
    pub habits: &'static [Row],
    /// What depends on several options at once.
    arrange: fn(&mut Call) -> Result<(), Failure>,
}

/// Options of one fate.
#[derive(Debug)]
pub struct Row {
    /// Each option: its spellings, divided by spaces, and a word for its value if it has one.
    pub options: &'static [&'static str],
    /// What becomes of them.
    pub to: To,
}

/// What becomes of an option.
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
    /// Ours have no such option, but the same letters for something else.
    Other(&'static str),
    /// Ours have no such option; what to do instead.
    Told(&'static str),
}

impl To {
    /// Whether a call with the option does what it does in llama.cpp.
    pub fn is_accepted(&self) -> bool {
        !matches!(self, To::Other(_) | To::Told(_))
    }
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
    fn tables_have_the_options_of_the_programs_and_no_others() {
        for program in PROGRAMS {
            let path = format!("{}/golden/options/{}.txt", env!("CARGO_MANIFEST_DIR"), program.name);
            let text = fs::read_to_string(path).unwrap();
            let theirs = text.lines().map(|line| Spelled { text: line.to_owned().leak() });
            let theirs: BTreeSet<String> = theirs.map(|it| key(it.names(), it.value().is_some())).collect();
            let n_rows = program.options().count();
            let ours: BTreeSet<String> =
                program.options().map(|(it, _)| key(it.names(), it.value().is_some())).collect();
            assert_eq!(ours, theirs, "{}", program.name);
            assert_eq!(ours.len(), n_rows, "{}: an option twice", program.name);
        }
    }

    #[test]
    fn as_many_are_accepted_as_the_document_says() {
        let accepted = PROGRAMS.iter().map(|program| {
            let n = program.options().filter(|(_, to)| to.is_accepted()).count();
            (program.name, n, program.options().count())
        });
        let expected = [
            ("convert_hf_to_gguf.py", 19, 26),
            ("llama-quantize", 15, 16),
            ("llama-imatrix", 17, 132),
            ("llama-perplexity", 20, 134),
            ("llama-gguf-split", 8, 9),
        ];
        assert_eq!(accepted.collect::<Vec<_>>(), expected);

        let count = |rows: &'static [Row]| {
            let options = of(rows.iter());
            let (n, n_accepted) = options
                .fold((0, 0), |(n, n_accepted), (_, to)| (n + 1, n_accepted + usize::from(to.is_accepted())));
            format!("{n_accepted} of {n}")
        };
        let shared = count(common::ROWS);
        let own = [imatrix::PROGRAM, perplexity::PROGRAM].map(|it| count(it.rows[1]));
        let (n_accepted, n) =
            expected.iter().fold((0, 0), |sums, (_, n_accepted, n)| (sums.0 + n_accepted, sums.1 + n));
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/coming-from-llama-cpp.md");
        let page = fs::read_to_string(path).unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
        for says in [
            format!("In all {n_accepted} of {n} options are accepted"),
            format!("{shared} of those that they share with all programs of llama.cpp"),
            format!("{} and {} of their own", own[0], own[1]),
        ] {
            assert!(page.contains(&says), "`{says}` is not in the document");
        }
    }

    #[test]
    fn no_spelling_is_in_a_table_twice() {
        for program in PROGRAMS {
            let mut seen = BTreeSet::new();
            for name in program.all().flat_map(|(spelled, _)| spelled.names()) {
                assert!(seen.insert(name), "{}: {name} twice", program.name);
            }
        }
    }

    #[test]
    fn tables_name_options_that_ours_have() {
        for program in PROGRAMS {
            assert!(COMMANDS.iter().any(|it| it.binary == program.binary && it.verb == program.verb));
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
                    To::Other(_) => spelled.names().any(has),
                    To::Told(_) => spelled.names().all(|name| !has(name)),
                    To::Argument(_) | To::Whole(_) | To::Anyway(_) | To::Arranged(_) => true,
                };
                assert!(is_right, "{}: {first} is {to:?}", program.name);
                let needs_value = matches!(to, To::Option(..) | To::Each(_) | To::Argument(_));
                assert!(!needs_value || spelled.value().is_some(), "{}: {first} has no value", program.name);
            }
        }
    }
}
