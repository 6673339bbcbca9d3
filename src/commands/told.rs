//! Progress in words, for work that has a figure to tell on the way.

use std::time::{Duration, Instant};

use crate::ui::Ui;

/// At most a line in so long.
const PAUSE: Duration = Duration::from_secs(1);

/// Tells how far the work is: at most a line a second, and the last one.
pub(super) struct Told {
    what: &'static str,
    total: usize,
    last: Instant,
}

impl Told {
    /// Of `total` pieces, `what` in the plural.
    pub fn new(what: &'static str, total: usize) -> Told {
        Told { what, total, last: Instant::now() }
    }

    /// So many pieces are done; `figure` is asked for only if it is going to be told.
    pub fn tell(&mut self, ui: &Ui, done: usize, figure: impl FnOnce() -> String) {
        if done >= self.total || self.last.elapsed() >= PAUSE {
            self.last = Instant::now();
            ui.status(&format!("{done} of {} {}: {}", self.total, self.what, figure()));
        }
    }
}
