//! HellaSwag: six lines a task, which are a context, the number of the right ending from 0, and
//! four endings. An ending's score is its mean log-likelihood by tokens (`acc_norm`).
//!
//! Source: `hellaswag_score`.

use super::{Answer, Tasks, likeliest, random::Mt19937};
use crate::{Error, Model};

const LINES: usize = 6;
const ENDINGS: usize = 4;

/// Tasks of a HellaSwag file, in the order in which the reference draws them.
pub struct HellaSwag {
    tasks: Vec<Task>,
}

struct Task {
    /// Context, a space and an ending, four times.
    texts: Vec<Vec<u8>>,
    right: usize,
}

impl HellaSwag {
    /// Reads a file and draws `n_tasks` of its tasks, or all if there are fewer.
    ///
    /// # Errors
    /// [`Error::Task`] for an invalid task.
    pub fn parse(bytes: &[u8], n_tasks: usize) -> Result<HellaSwag, Error> {
        let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        let lines: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
        let n = lines.len() / LINES;
        if !lines.len().is_multiple_of(LINES) {
            return Err(Error::Task { task: n, problem: "the number of lines is not a multiple of 6" });
        }
        let mut left: Vec<usize> = (0..n).collect();
        let mut random = Mt19937::new(1);
        let mut tasks = Vec::new();
        for _ in 0..n_tasks.min(n) {
            let n_left = u32::try_from(left.len())
                .map_err(|_| Error::Task { task: left.len(), problem: "too many tasks" })?;
            // The reference erases from a vector as well: the order of what is left decides what the next draw means.
            let index = left.remove(random.below(n_left));
            let lines = &lines[index * LINES..][..LINES];
            let right = std::str::from_utf8(lines[1]).ok().and_then(|line| line.trim().parse().ok());
            let right = right.filter(|right| *right < ENDINGS);
            let right = right
                .ok_or(Error::Task { task: index, problem: "the second line is not a number from 0 to 3" })?;
            // Line 0 is the context, line 1 the right ending, lines 2 to 5 the endings.
            let text = |ending: &&[u8]| [lines[0], b" ", ending].concat();
            tasks.push(Task { texts: lines[2..].iter().map(text).collect(), right });
        }
        Ok(HellaSwag { tasks })
    }
}

impl Tasks for HellaSwag {
    fn n_tasks(&self) -> usize {
        self.tasks.len()
    }

    fn answer(&self, index: usize, model: &Model) -> Result<Answer, Error> {
        let task = &self.tasks[index];
        let (scores, chosen, n_tokens) = likeliest(&task.texts, index, model)?;
        Ok(Answer { scores, chosen, n_tokens, is_right: chosen == task.right })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_become_tasks() {
        let file = b"A: one\n2\na\nb\nc\nd\nB: two\n0\ne\nf\ng\nh\n";
        let tasks = HellaSwag::parse(file, 9).unwrap().tasks;
        assert_eq!(tasks.len(), 2);
        let one = tasks.iter().find(|task| task.right == 2).unwrap();
        assert_eq!(one.texts, [b"A: one a", b"A: one b", b"A: one c", b"A: one d"]);
        assert_eq!(HellaSwag::parse(file, 1).unwrap().tasks.len(), 1);
        assert!(HellaSwag::parse(b"a\nb\n", 1).is_err());
        assert!(HellaSwag::parse(b"A\n4\na\nb\nc\nd\n", 1).is_err());
    }
}
