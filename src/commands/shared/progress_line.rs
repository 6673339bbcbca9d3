//! Progress in words, for work that has an intermediate result to show.

use std::time::{Duration, Instant};

use crate::ui::{Ui, human_duration};

/// The shortest time between two lines.
const INTERVAL: Duration = Duration::from_secs(1);

/// Prints how far the work is: at most one line a second, and always the last one.
pub(in crate::commands) struct ProgressLine {
    unit: &'static str,
    total: usize,
    /// Pieces that an earlier run did.
    first: usize,
    started: Instant,
    last: Instant,
}

impl ProgressLine {
    /// Progress over `total` pieces; `unit` is their name in the plural.
    pub fn new(unit: &'static str, total: usize) -> ProgressLine {
        ProgressLine::from(unit, 0, total)
    }

    /// Progress over `total` pieces of which `first` are already done and do not count for the speed.
    pub fn from(unit: &'static str, first: usize, total: usize) -> ProgressLine {
        let now = Instant::now();
        ProgressLine { unit, total, first, started: now, last: now }
    }

    /// Reports that `done` pieces are done. `figure` is computed only if a line is printed.
    pub fn update(&mut self, ui: &Ui, done: usize, figure: impl FnOnce() -> String) {
        if done >= self.total || self.last.elapsed() >= INTERVAL {
            self.last = Instant::now();
            let left =
                self.left(done).map_or(String::new(), |left| format!(", {} left", human_duration(left)));
            ui.status(&format!("{done} of {} {}{left}: {}", self.total, self.unit, figure()));
        }
    }

    /// Estimated time for the remaining pieces at the speed of this run; none after the last one.
    fn left(&self, done: usize) -> Option<Duration> {
        let n_done = done.checked_sub(self.first).filter(|n| *n > 0)?;
        let n_left = self.total.checked_sub(done).filter(|n| *n > 0)?;
        Some(self.started.elapsed().mul_f64(n_left as f64 / n_done as f64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_is_that_of_the_pieces_of_this_run() {
        let mut line = ProgressLine::from("chunks", 10, 40);
        line.started = Instant::now() - Duration::from_secs(60);
        assert_eq!(line.left(20).map(|left| left.as_secs()), Some(120));
        assert_eq!((line.left(10), line.left(40)), (None, None));
    }
}
