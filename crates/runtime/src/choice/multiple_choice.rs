//! Multiple choice: questions with any number of answers, one right, in a binary file.
//!
//! ```text
//! u32 n_tasks
//! u32 offsets[n_tasks]                from the start of the file
//! n_tasks times:
//!   text question
//!   u32 n, text answers[n], i32 is_right[n]      one right answer
//!   u32 n, text answers[n], i32 is_right[n]      several right answers; not used
//! text: u32 n_bytes, bytes
//! ```
//!
//! Source: `multiple_choice_score` and what it reads with.

use super::{Answer, Tasks, likeliest, random::Mt19937};
use crate::{Error, Model};

/// A file with more answers than this is taken to be damaged.
const MOST_ANSWERS: u32 = 100;

/// Tasks of a multiple choice file.
pub struct MultipleChoice {
    tasks: Vec<Task>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Task {
    /// Question, a space and an answer, for each answer.
    texts: Vec<Vec<u8>>,
    is_right: Vec<bool>,
}

impl MultipleChoice {
    /// Reads a file and selects `n_tasks` of its tasks at random, or all if there are no more.
    ///
    /// # Errors
    /// [`Error::Task`] for an invalid task or a truncated file.
    pub fn parse(bytes: &[u8], n_tasks: usize) -> Result<MultipleChoice, Error> {
        let cut = Error::Task { task: 0, problem: "the file ends before the task" };
        let mut cursor = Cursor { bytes, at: 0 };
        let n = cursor.number().ok_or(cut)? as usize;
        let offsets = n.checked_mul(4).and_then(|n_bytes| cursor.take(n_bytes));
        // `checked_mul` and `take` check a count against the file's length before anything is allocated.
        let Some(offsets) = offsets else {
            return Err(Error::Task { task: 0, problem: "the file ends before the task" });
        };
        let offset = |index: usize| {
            let mut offset = [0; 4];
            offset.copy_from_slice(&offsets[index * 4..][..4]);
            u32::from_le_bytes(offset) as usize
        };
        let mut tasks = Vec::new();
        for index in Mt19937::new(1).select(n, n_tasks) {
            // All in order need no offsets, and the reference uses none.
            if n_tasks < n {
                cursor.at = offset(index).min(bytes.len());
            }
            let task = cursor.task().ok_or(Error::Task { task: index, problem: "truncated or invalid" })?;
            // `Cursor::task` leaves out the texts if the question or an answer is empty.
            if task.texts.is_empty() {
                return Err(Error::Task { task: index, problem: "missing or empty question or answer" });
            }
            tasks.push(task);
        }
        Ok(MultipleChoice { tasks })
    }
}

struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let taken = self.bytes.get(self.at..self.at.checked_add(n)?)?;
        self.at += n;
        Some(taken)
    }

    fn number(&mut self) -> Option<u32> {
        let mut number = [0; 4];
        number.copy_from_slice(self.take(4)?);
        Some(u32::from_le_bytes(number))
    }

    fn text(&mut self) -> Option<&'a [u8]> {
        let n_bytes = self.number()?;
        self.take(n_bytes as usize)
    }

    fn answers(&mut self) -> Option<(Vec<&'a [u8]>, Vec<bool>)> {
        let n = self.number().filter(|n| *n <= MOST_ANSWERS)?;
        let answers = (0..n).map(|_| self.text()).collect::<Option<_>>()?;
        let is_right = (0..n).map(|_| Some(self.number()? == 1)).collect::<Option<_>>()?;
        Some((answers, is_right))
    }

    /// A task without texts where question or answers are empty.
    fn task(&mut self) -> Option<Task> {
        let question = self.text()?;
        let (answers, is_right) = self.answers()?;
        let _ = self.answers()?;
        let is_whole = !question.is_empty() && answers.iter().all(|answer| !answer.is_empty());
        let answers = if is_whole { answers } else { Vec::new() };
        let text = |answer: &&[u8]| [question, b" ", answer].concat();
        Some(Task { texts: answers.iter().map(text).collect(), is_right })
    }
}

impl Tasks for MultipleChoice {
    fn n_tasks(&self) -> usize {
        self.tasks.len()
    }

    fn answer(&self, index: usize, model: &Model) -> Result<Answer, Error> {
        let task = &self.tasks[index];
        let (scores, chosen, n_tokens) = likeliest(&task.texts, index, model)?;
        Ok(Answer { scores, chosen, n_tokens, is_right: task.is_right[chosen] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Vec<u8> {
        [&(text.len() as u32).to_le_bytes()[..], text.as_bytes()].concat()
    }

    fn numbers(numbers: &[u32]) -> Vec<u8> {
        numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
    }

    fn file() -> Vec<u8> {
        let task = |question: &str| {
            let several = numbers(&[0]);
            [text(question), numbers(&[2]), text("yes"), text("no"), numbers(&[0, 1]), several].concat()
        };
        let (one, two) = (task("one?"), task("and two?"));
        let start = 12u32;
        [numbers(&[2, start, start + one.len() as u32]), one, two].concat()
    }

    #[test]
    fn tasks_are_read_in_order_or_by_offset() {
        let all = MultipleChoice::parse(&file(), 7).unwrap().tasks;
        assert_eq!(all[1].texts, [b"and two? yes".to_vec(), b"and two? no".to_vec()]);
        assert_eq!(all[0].is_right, [false, true]);
        let one = MultipleChoice::parse(&file(), 1).unwrap().tasks;
        assert!(one.len() == 1 && all.contains(&one[0]));
    }

    #[test]
    fn truncation_is_detected() {
        let bytes = file();
        for end in 0..bytes.len() {
            assert!(matches!(MultipleChoice::parse(&bytes[..end], 7), Err(Error::Task { .. })), "{end}");
        }
        assert!(MultipleChoice::parse(&numbers(&[u32::MAX]), 7).is_err());
    }
}
