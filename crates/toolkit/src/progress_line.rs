//! Progress of work that has an intermediate result to show: one updating line on a terminal, few lines in a log.

use std::time::{Duration, Instant};

use crate::{
    events::{Events, StatusLine},
    text::human_duration,
};

/// Shortest time between two updates on a terminal.
const REDRAW_INTERVAL: Duration = Duration::from_millis(200);

/// Shortest work after the first piece that allows an estimate. The first pieces are slower, and pieces differ.
const WARM_UP: Duration = Duration::from_secs(5);

/// Share of the work after the first piece that allows an estimate.
const WARM_UP_SHARE: f64 = 0.03;

/// Chooses the lines of progress of a stage in a log: the first after 10 seconds, then one for each 10 % of the work, but not more
/// often than every 30 seconds, and at least one in ten minutes.
#[derive(Debug)]
pub struct LogPace {
    last: Instant,
    /// Share of the work at the last line; `None` before the first line.
    share: Option<f64>,
}

impl LogPace {
    /// Pace of a stage that began at this time.
    pub fn since(start: Instant) -> LogPace {
        LogPace { last: start, share: None }
    }

    /// True if a line is due now that `share` of the work is done. The caller prints it.
    pub fn is_due(&mut self, share: f64) -> bool {
        self.is_due_at(share, Instant::now())
    }

    fn is_due_at(&mut self, share: f64, now: Instant) -> bool {
        let waited = now.saturating_duration_since(self.last).as_secs();
        let is_due = match self.share {
            None => waited >= 10,
            Some(last) => waited >= 600 || (waited >= 30 && share - last >= 0.1),
        };
        if is_due {
            *self = LogPace { last: now, share: Some(share) };
        }
        is_due
    }
}

/// Progress of one stage of a command.
pub struct ProgressLine {
    unit: &'static str,
    /// Relative cost of the pieces up to each one, starting with 0 for none.
    cost_until: Vec<f64>,
    /// The first piece of this run, and the time when it was done. It includes start-up work, so estimates leave it out.
    warm: Option<(usize, Instant)>,
    /// Time of the last output on a terminal.
    last: Option<Instant>,
    pace: LogPace,
    line: Option<Box<dyn StatusLine>>,
}

impl ProgressLine {
    /// A stage of `total` pieces of equal cost. `unit` is their name in the plural.
    pub fn new(unit: &'static str, total: usize) -> ProgressLine {
        ProgressLine::with_costs(unit, &vec![1.0; total])
    }

    /// A stage with a piece for each relative cost.
    pub fn with_costs(unit: &'static str, costs: &[f64]) -> ProgressLine {
        let mut sum = 0.0;
        let ends = costs.iter().map(|cost| {
            sum += cost;
            sum
        });
        let cost_until = std::iter::once(0.0).chain(ends).collect();
        ProgressLine {
            unit,
            cost_until,
            warm: None,
            last: None,
            pace: LogPace::since(Instant::now()),
            line: None,
        }
    }

    /// Number of pieces.
    fn total(&self) -> usize {
        self.cost_until.len() - 1
    }

    /// Reports that `done` pieces are done, those of an earlier run included. `metric`, with its name, is computed only if a
    /// line is printed; it may be empty.
    pub fn update(&mut self, events: &dyn Events, done: usize, metric: impl FnOnce() -> String) {
        let now = Instant::now();
        let left = self.left(done, now);
        let total = self.total();
        let line = self.line.get_or_insert_with(|| events.status_line());
        line.count(done, total);
        let is_last = done >= total;
        let is_due = if line.is_updating() {
            self.last.is_none_or(|last| now.duration_since(last) >= REDRAW_INTERVAL)
        } else {
            self.pace.is_due(done as f64 / total.max(1) as f64)
        };
        if !is_last && !is_due {
            return;
        }
        self.last = Some(now);
        let left = left.map_or(String::new(), |left| format!(", {} left", human_duration(left)));
        let metric = metric();
        let colon = if metric.is_empty() { "" } else { ": " };
        let text = format!("{done} of {total} {}{left}{colon}{metric}", self.unit);
        if is_last { line.finish(&text) } else { line.show(&text) }
    }

    /// Remaining time, from the cost of the pieces that this run did after its first one. `None` before there are enough of them,
    /// and after the last one.
    fn left(&mut self, done: usize, now: Instant) -> Option<Duration> {
        let done = done.min(self.total());
        let (first, since) = *self.warm.get_or_insert((done, now));
        let did = self.cost_until[done] - self.cost_until[first.min(done)];
        let remaining = self.cost_until[self.total()] - self.cost_until[done];
        let took = now.duration_since(since);
        let is_warm = took >= WARM_UP && did >= WARM_UP_SHARE * self.cost_until[self.total()];
        (is_warm && did > 0.0 && remaining > 0.0).then(|| took.mul_f64(remaining / did))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds_left(line: &mut ProgressLine, start: Instant, done: usize, seconds: u64) -> Option<u64> {
        line.left(done, start + Duration::from_secs(seconds)).map(|left| left.as_secs())
    }

    #[test]
    fn remaining_time_ignores_first_piece_and_earlier_runs() {
        let (mut line, start) = (ProgressLine::new("chunks", 40), Instant::now());
        assert_eq!(seconds_left(&mut line, start, 11, 30), None, "start-up takes 30 s");
        assert_eq!(seconds_left(&mut line, start, 12, 32), None, "two seconds allow no estimate");
        assert_eq!(seconds_left(&mut line, start, 21, 60), Some(57));
        assert_eq!(seconds_left(&mut line, start, 40, 90), None);
    }

    #[test]
    fn remaining_time_follows_the_cost_of_the_pieces() {
        let (mut line, start) = (ProgressLine::with_costs("probes", &[9.0, 3.0, 2.0, 1.0]), Instant::now());
        assert_eq!(seconds_left(&mut line, start, 1, 90), None);
        assert_eq!(seconds_left(&mut line, start, 2, 120), Some(30));
    }

    #[test]
    fn log_gets_few_lines() {
        let start = Instant::now();
        let mut pace = LogPace::since(start);
        let mut due = |second: u64, share: f64| pace.is_due_at(share, start + Duration::from_secs(second));
        assert!(!due(9, 0.9) && due(10, 0.01), "the first line");
        assert!(!due(39, 0.9), "too early");
        assert!(!due(60, 0.05) && due(100, 0.12) && !due(140, 0.17));
        assert!(!due(699, 0.17) && due(700, 0.17), "after ten minutes");
    }
}
