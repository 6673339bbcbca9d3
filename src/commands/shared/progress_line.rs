//! Progress in words, for work that has an intermediate result to show.

use std::time::{Duration, Instant};

use crate::ui::Ui;

/// The shortest time between two lines.
const INTERVAL: Duration = Duration::from_secs(1);

/// Prints how far the work is: at most one line a second, and always the last one.
pub(in crate::commands) struct ProgressLine {
    unit: &'static str,
    total: usize,
    last: Instant,
}

impl ProgressLine {
    /// Of `total` pieces; `unit` is their name in the plural.
    pub fn new(unit: &'static str, total: usize) -> ProgressLine {
        ProgressLine { unit, total, last: Instant::now() }
    }

    /// Reports that `done` pieces are done. `figure` is computed only if a line is printed.
    pub fn update(&mut self, ui: &Ui, done: usize, figure: impl FnOnce() -> String) {
        if done >= self.total || self.last.elapsed() >= INTERVAL {
            self.last = Instant::now();
            ui.status(&format!("{done} of {} {}: {}", self.total, self.unit, figure()));
        }
    }
}
