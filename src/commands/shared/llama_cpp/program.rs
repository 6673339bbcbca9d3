//! A program of llama.cpp: the table of its options.

use super::call::Call;
use crate::failure::Failure;

/// Options of llama.cpp without a counterpart.
const WITHOUT: &str = include_str!("without.txt");

/// Section of [`WITHOUT`] that several programs share.
const COMMON: &str = "programs that run a model";

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
    /// True if it also has the options of all programs that run a model.
    pub(super) shares_common: bool,
    /// Options of other programs that people try with it.
    pub habits: &'static [Row],
    /// Handles options that depend on each other.
    pub(super) arrange: fn(&mut Call) -> Result<(), Failure>,
}

impl Program {
    /// True for its name, with or without the ending of a script.
    pub(super) fn is_named(&self, name: &str) -> bool {
        [self.name, self.name.trim_end_matches(".py")].contains(&name)
    }
}

/// Options with the same translation.
#[derive(Debug)]
pub struct Row {
    /// Each option: its spellings, separated by spaces, and a word for its value if it has one.
    pub options: &'static [&'static str],
    /// Their translation.
    pub to: To,
}

/// Translation of an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum To {
    /// The same option.
    Same,
    /// This option of ours. It is left out if it has one of these values.
    Option(&'static str, &'static [&'static str]),
    /// This option of ours, once for each value of a comma-separated list.
    Each(&'static str),
    /// A positional argument, counted from 0.
    Argument(usize),
    /// These arguments of ours.
    Words(&'static [&'static str]),
    /// These arguments instead of the whole call.
    Whole(&'static [&'static str]),
    /// Nothing, because ours always do this; the text says why.
    Anyway(&'static str),
    /// A call that depends on other options too; the text describes it.
    Arranged(&'static str),
    /// Not supported.
    Unknown,
}

/// An option of a row, in its parts.
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
    /// Every option of the program with its translation.
    pub fn options(&self) -> impl Iterator<Item = (Spelled, To)> + use<> {
        of(self.rows.iter().copied().flatten())
    }

    /// Every option without a counterpart.
    pub fn without(&self) -> impl Iterator<Item = Spelled> + use<> {
        let (name, shares_common) = (self.name, self.shares_common);
        let mut section = "";
        let lines = WITHOUT.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        lines.filter_map(move |line| {
            if let Some(title) = line.strip_prefix('[') {
                section = title.trim_end_matches(']');
                return None;
            }
            let is_of_program = section == name || (shares_common && section == COMMON);
            is_of_program.then_some(Spelled { text: line })
        })
    }

    /// The same, and the options of other programs that people try.
    pub fn all(&self) -> impl Iterator<Item = (Spelled, To)> + use<> {
        self.options().chain(of(self.habits.iter()))
    }
}

fn of(rows: impl Iterator<Item = &'static Row>) -> impl Iterator<Item = (Spelled, To)> {
    rows.flat_map(|row| row.spelled().map(|spelled| (spelled, row.to)))
}

pub(super) const fn row(options: &'static [&'static str], to: To) -> Row {
    Row { options, to }
}
