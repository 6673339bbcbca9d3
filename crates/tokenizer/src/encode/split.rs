//! Splits text into the words that byte pair encoding works on.

use fancy_regex::Regex;

use super::{error::Error, text::numbers};
use crate::pre::Step;

/// The steps of a pre-tokenizer, compiled.
pub(super) struct Splitter(Vec<Compiled>);

enum Compiled {
    Expression(Regex),
    Lines,
    DigitGroups,
}

impl Splitter {
    pub(super) fn new(steps: &[Step]) -> Result<Self, Error> {
        let compile = |step: &Step| match step {
            Step::Lines => Ok(Compiled::Lines),
            Step::DigitGroups => Ok(Compiled::DigitGroups),
            Step::Expression(expression) => {
                Regex::new(expression).map(Compiled::Expression).map_err(|error| Error::Split {
                    expression: (*expression).into(),
                    problem: error.to_string(),
                })
            }
        };
        Ok(Splitter(steps.iter().map(compile).collect::<Result<_, _>>()?))
    }

    /// Calls `each` for each word, in order. Every step splits the pieces of the previous step.
    pub(super) fn words<'t>(
        &self,
        text: &'t str,
        each: &mut impl FnMut(&'t str) -> Result<(), Error>,
    ) -> Result<(), Error> {
        split(&self.0, text, each)
    }
}

fn split<'t>(
    steps: &[Compiled],
    text: &'t str,
    each: &mut dyn FnMut(&'t str) -> Result<(), Error>,
) -> Result<(), Error> {
    // Recursion over the steps: the pieces of the last step are the words, in text order.
    let Some((step, rest)) = steps.split_first() else { return each(text) };
    let mut next = |from: usize, to: usize| {
        if from < to { split(rest, &text[from..to], each) } else { Ok(()) }
    };
    let mut done = 0;
    match step {
        Compiled::Expression(regex) => {
            for found in regex.find_iter(text) {
                let found = found.map_err(|error| Error::Split {
                    expression: regex.as_str().into(),
                    problem: error.to_string(),
                })?;
                // The text between two matches is a piece as well: an expression only splits.
                next(done, found.start())?;
                next(found.start(), found.end())?;
                done = found.end();
            }
        }
        Compiled::Lines => {
            let mut before = None;
            for (at, byte) in text.bytes().enumerate() {
                let is_end = byte == b'\n';
                if before.is_some_and(|before| before != is_end) {
                    next(done, at)?;
                    done = at;
                }
                before = Some(is_end);
            }
        }
        Compiled::DigitGroups => {
            let mut chars = text.char_indices().peekable();
            while let Some((_, c)) = chars.next() {
                if !numbers().has(c) {
                    continue;
                }
                // Where each digit of the run ends.
                let mut ends = Vec::new();
                loop {
                    ends.push(chars.peek().map_or(text.len(), |(at, _)| *at));
                    if chars.next_if(|(_, c)| numbers().has(*c)).is_none() {
                        break;
                    }
                }
                // Groups of three from the right: a run of n digits begins with a group of (n - 1) % 3 + 1.
                let first = (ends.len() - 1) % 3;
                for end in ends.iter().skip(first).step_by(3) {
                    next(done, *end)?;
                    done = *end;
                }
            }
        }
    }
    next(done, text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words<'t>(steps: &[Step], text: &'t str) -> Vec<&'t str> {
        let mut words = Vec::new();
        let splitter = Splitter::new(steps).unwrap();
        splitter
            .words(text, &mut |word| {
                words.push(word);
                Ok(())
            })
            .unwrap();
        words
    }

    #[test]
    fn every_expression_of_the_table_compiles() {
        for name in crate::pre::names() {
            let pre = crate::pre::by_name(name).unwrap();
            for steps in [pre.llama_cpp, pre.steps_of_models()] {
                assert!(Splitter::new(steps).is_ok(), "{name}");
            }
        }
    }

    #[test]
    fn unmatched_text_stays_in_one_piece() {
        let steps = [Step::Expression("[0-9]")];
        assert_eq!(words(&steps, "ab12 c"), ["ab", "1", "2", " c"]);
        assert_eq!(words(&steps, ""), [""; 0]);
    }

    #[test]
    fn steps_match_within_earlier_pieces() {
        let steps = [Step::Expression("x"), Step::Expression(r"\s+(?!\S)|\s+")];
        assert_eq!(words(&steps, "a  xa  a"), ["a", "  ", "x", "a", " ", " ", "a"]);
    }

    #[test]
    fn empty_matches_split_text() {
        let steps = [Step::Expression("(?=([0-9]{3})+(?![0-9]))")];
        assert_eq!(words(&steps, "1234567"), ["1", "234", "567"]);
    }

    #[test]
    fn lines_and_line_ends_are_pieces() {
        assert_eq!(words(&[Step::Lines], "a\n\nbc\n"), ["a", "\n\n", "bc", "\n"]);
    }

    /// The reference's loop keeps the text before the digits in the first group.
    #[test]
    fn digits_are_grouped_from_the_right() {
        assert_eq!(words(&[Step::DigitGroups], "ab1234567c89"), ["ab1", "234", "567", "c89"]);
        assert_eq!(words(&[Step::DigitGroups], "123456 "), ["123", "456", " "]);
    }
}
