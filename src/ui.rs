//! The only code that knows progress bars, colour and stderr.
//!
//! Data goes to stdout and is the same with and without a terminal, except for colour. Messages go to stderr, are
//! readable without colour, and are suppressed by `--quiet` except for errors.
#![expect(
    clippy::disallowed_methods,
    clippy::exit,
    reason = "the only place where the process prints and exits"
)]

use std::{
    io::{self, IsTerminal, Write},
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicI32, Ordering},
    },
    time::{Duration, Instant},
};

use anstyle::{AnsiColor, Style};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;

use crate::failure::{EXIT_INTERRUPTED, Failure};

/// Amount of output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ui {
    /// Print only errors.
    pub quiet: bool,
    /// Everything.
    pub verbose: bool,
}

/// Style of a good result.
pub const GOOD: Style = AnsiColor::Green.on_default().bold();
/// Style of the word `error`.
pub const ERROR: Style = AnsiColor::Red.on_default().bold();
/// Style of the word `warning`.
pub const WARNING: Style = AnsiColor::Yellow.on_default().bold();
const HINT: Style = AnsiColor::Cyan.on_default().bold();
const PLAIN: Style = Style::new();

/// Prints `label: text` to stderr, escaping characters that could move a terminal's cursor. A closed stderr is not an
/// error.
fn say(style: Style, label: &str, text: &str) {
    let _ = match label {
        "" => writeln!(anstream::stderr(), "{}", printable(text)),
        label => writeln!(anstream::stderr(), "{style}{label}:{style:#} {}", printable(text)),
    };
}

/// The text with control characters escaped; names in files are not trusted.
pub fn printable(text: &str) -> String {
    text.chars()
        .flat_map(|c| {
            let escaped = c.is_control().then(|| c.escape_debug());
            let plain = (!c.is_control()).then_some(c);
            escaped.into_iter().flatten().chain(plain)
        })
        .collect()
}

/// Indented JSON, with a line end.
///
/// # Errors
/// A value that cannot be serialized.
pub fn pretty_json(value: &impl Serialize) -> Result<String, Failure> {
    Ok(serde_json::to_string_pretty(value).map_err(Failure::new)? + "\n")
}

impl Ui {
    /// Writes data to stdout. A reader that has gone away is the end, not an error.
    ///
    /// # Errors
    /// stdout cannot be written.
    pub fn data(&self, text: &str) -> Result<(), Failure> {
        let mut stdout = io::stdout().lock();
        match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            Err(error) => Err(Failure::new(format_args!("cannot write to stdout: {error}"))),
            Ok(()) => Ok(()),
        }
    }

    /// Writes a value to stdout as indented JSON.
    ///
    /// # Errors
    /// Those of [`Ui::data`].
    pub fn json(&self, value: &impl Serialize) -> Result<(), Failure> {
        self.data(&pretty_json(value)?)
    }

    /// Writes data with styles to stdout; only terminals get the styles.
    ///
    /// # Errors
    /// Those of [`Ui::data`].
    pub fn styled_data(&self, text: &str) -> Result<(), Failure> {
        match anstream::AutoStream::choice(&io::stdout()) {
            anstream::ColorChoice::Never => self.data(&anstream::adapter::strip_str(text).to_string()),
            _ => self.data(text),
        }
    }

    /// Why the command failed, and what can be done.
    pub fn failure(&self, failure: &Failure) {
        say(ERROR, "error", &failure.message);
        for hint in &failure.hints {
            say(HINT, "hint", hint);
        }
    }

    /// Something that may not be what the person wants.
    pub fn warning(&self, text: &str) {
        if !self.quiet {
            say(WARNING, "warning", text);
        }
    }

    /// Prints a finished step.
    pub fn status(&self, text: &str) {
        if !self.quiet {
            say(PLAIN, "", text);
        }
    }

    /// Something that a person should know.
    pub fn note(&self, text: &str) {
        if !self.quiet {
            say(PLAIN, "note", text);
        }
    }

    /// Prints a detail, with `--verbose` only.
    pub fn detail(&self, text: &str) {
        if self.verbose {
            self.note(text);
        }
    }

    /// A line for a stage that has an intermediate result to show.
    pub fn status_line(&self) -> StatusLine {
        let bar = (io::stderr().is_terminal() && !self.quiet).then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            match ProgressStyle::with_template("{wide_msg}") {
                Ok(style) => bar.with_style(style),
                Err(_) => bar,
            }
        });
        StatusLine { bar }
    }

    /// Shows progress over `total_bytes` of input: a bar on a terminal, otherwise a line every ten seconds.
    pub fn progress(&self, total_bytes: u64) -> Progress {
        let has_terminal = io::stderr().is_terminal();
        let is_shown = has_terminal && !self.quiet;
        let target = if is_shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(total_bytes), target);
        let template = "{bar:40} {decimal_bytes}/{decimal_total_bytes} {decimal_bytes_per_sec} {eta}";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        let now = Instant::now();
        let lines =
            (!has_terminal && !self.quiet).then(|| Lines { ui: *self, started: now, last: Mutex::new(now) });
        Progress { bar, lines }
    }
}

/// A line of text that is updated in place on a terminal; ordinary lines in a log. It is cleared when it goes out of scope.
#[derive(Debug)]
pub struct StatusLine {
    bar: Option<ProgressBar>,
}

impl StatusLine {
    /// True if the line is updated in place.
    pub fn is_updating(&self) -> bool {
        self.bar.is_some()
    }

    /// Replaces the text.
    pub fn show(&self, ui: &Ui, text: &str) {
        match &self.bar {
            Some(bar) => bar.set_message(printable(text)),
            None => ui.status(text),
        }
    }

    /// Clears the line and prints `text` as the final one.
    pub fn finish(&self, ui: &Ui, text: &str) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        ui.status(text);
    }
}

impl Drop for StatusLine {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// A bar that is taken away when it goes out of scope, or lines in its place.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
    lines: Option<Lines>,
}

/// Progress for a log.
#[derive(Debug)]
struct Lines {
    ui: Ui,
    started: Instant,
    /// When the last line was printed.
    last: Mutex<Instant>,
}

/// Time between two lines of progress in a log.
pub const LINE_INTERVAL: Duration = Duration::from_secs(10);

impl Progress {
    /// So many more bytes are done. Callable from any thread.
    pub fn add(&self, bytes: u64) {
        self.bar.inc(bytes);
        let Some(lines) = &self.lines else { return };
        // Another thread is printing already.
        let Ok(mut last) = lines.last.try_lock() else { return };
        if last.elapsed() >= LINE_INTERVAL {
            *last = Instant::now();
            let (done, total) = (self.bar.position(), self.bar.length().unwrap_or(0));
            lines.ui.status(&progress_line(done, total, lines.started.elapsed()));
        }
    }
}

/// `1.20 GB of 14.5 GB read (8 %), 240 MB/s, 55 s left`.
fn progress_line(done: u64, total: u64, elapsed: Duration) -> String {
    let per_second = done as f64 / elapsed.as_secs_f64().max(1e-3);
    let left = Duration::from_secs_f64(total.saturating_sub(done) as f64 / per_second.max(1.0));
    let percent = done * 100 / total.max(1);
    format!(
        "{} of {} read ({percent} %), {}/s, {} left",
        human_bytes(done),
        human_bytes(total),
        human_bytes(per_second as u64),
        human_duration(left)
    )
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// Builds the message for a process that must end early.
type LastWords = Box<dyn Fn() -> Failure + Send>;

static LAST_WORDS: Mutex<Option<(Ui, LastWords)>> = Mutex::new(None);

/// Time from the first signal to the end of a process whose work cannot be stopped in time: with what comes after it, a
/// second.
const PATIENCE: Duration = Duration::from_millis(800);

/// As long as this lives, a signal ends the process within a second, whatever its threads wait for.
#[derive(Debug)]
pub struct EndsSoon(());

impl Drop for EndsSoon {
    fn drop(&mut self) {
        let words = LAST_WORDS.lock().unwrap_or_else(PoisonError::into_inner).take();
        // Another thread prints them and ends the process.
        while words.is_none() {
            std::thread::park();
        }
    }
}

impl Ui {
    /// From now on a signal ends the process within a second, with these words where the work has not ended by then. For work
    /// that loses nothing by that.
    pub fn ends_soon(&self, words: impl Fn() -> Failure + Send + 'static) -> EndsSoon {
        *LAST_WORDS.lock().unwrap_or_else(PoisonError::into_inner) = Some((*self, Box::new(words)));
        EndsSoon(())
    }
}

fn end_soon() {
    std::thread::sleep(PATIENCE);
    let words = LAST_WORDS.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some((ui, words)) = words {
        ui.failure(&words());
        std::process::exit(interrupted_code().into());
    }
}

/// The signal that asked the process to stop; 0 where none did.
static STOPPED_BY: AtomicI32 = AtomicI32::new(0);

/// The exit code of an interrupted run, as shells have it: 128 and the number of the signal.
pub fn interrupted_code() -> u8 {
    match STOPPED_BY.load(Ordering::SeqCst) {
        0 => EXIT_INTERRUPTED,
        signal => 128 + signal as u8,
    }
}

/// Returns a flag that Ctrl-C, SIGTERM and SIGHUP set. Workers check it, stop and clean up; a second signal
/// removes temporary files and ends the process at once. A SIGHUP that was ignored at start, as with `nohup`,
/// stays ignored.
pub fn cancel_on_interrupt() -> Arc<AtomicBool> {
    static CANCEL: OnceLock<Arc<AtomicBool>> = OnceLock::new();
    let install = || {
        let cancel = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&cancel);
        on_stop_signals(move |signal| {
            STOPPED_BY.store(signal, Ordering::SeqCst);
            if flag.swap(true, Ordering::SeqCst) {
                gguf::remove_temporary_files();
                std::process::exit(interrupted_code().into());
            }
            // If the thread cannot start, the run ends when the workers next check the flag.
            let _ = std::thread::Builder::new().spawn(end_soon);
        });
        cancel
    };
    Arc::clone(CANCEL.get_or_init(install))
}

/// Calls `stop` with the number of each signal that asks the process to end. Without a handler these end the
/// process as they always do; that is no reason not to run.
#[cfg(unix)]
fn on_stop_signals(stop: impl Fn(i32) + Send + 'static) {
    use signal_hook::{
        consts::{SIGHUP, SIGINT, SIGTERM},
        iterator::Signals,
    };
    let wanted = [SIGINT, SIGTERM, SIGHUP]
        .into_iter()
        .filter(|signal| *signal != SIGHUP || !gguf::is_signal_ignored(SIGHUP));
    // Handlers are installed by the thread: if it cannot start, signals keep their default action.
    let (ready, is_ready) = std::sync::mpsc::channel::<()>();
    let listen = move || {
        let signals = Signals::new(wanted);
        drop(ready);
        if let Ok(mut signals) = signals {
            signals.forever().for_each(stop);
        }
    };
    let _ = std::thread::Builder::new().spawn(listen);
    // Returns once the thread listens, or if it could not be started.
    let _ = is_ready.recv();
}

/// Lets a write beyond the limit of a file's length (`ulimit -f`) fail, as on a full disk. Without a handler the system ends the
/// process.
pub fn survive_file_limits() {
    #[cfg(unix)]
    {
        // That it came is of no interest: the write says the rest.
        let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::new(AtomicBool::new(false)));
    }
}

#[cfg(not(unix))]
fn on_stop_signals(stop: impl Fn(i32) + Send + 'static) {
    const SIGINT: i32 = 2;
    let _ = ctrlc::set_handler(move || stop(SIGINT));
}

/// A time for people: `12 s`, `3 min 20 s`, `2 h 5 min`, `3 days`.
pub fn human_duration(time: Duration) -> String {
    let seconds = time.as_secs();
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match () {
        () if minutes == 0 => format!("{seconds} s"),
        () if hours == 0 => format!("{minutes} min {} s", seconds % 60),
        () if days < 2 => format!("{hours} h {} min", minutes % 60),
        () => format!("{days} days"),
    }
}

/// A size for people: `857 kB`, `4.2 GB`. Powers of 1000, as disks and downloads are sold.
pub fn human_bytes(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["B", "kB", "MB", "GB", "TB", "PB"];
    let mut size = bytes as f64;
    let mut unit = 0;
    // Values that would print as 1000 belong to the next unit.
    while size >= 999.5 && unit + 1 < UNITS.len() {
        size /= 1000.0;
        unit += 1;
    }
    let digits = if unit == 0 || size >= 99.95 {
        0
    } else if size >= 9.995 {
        1
    } else {
        2
    };
    format!("{size:.digits$} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_printed_with_units() {
        for (bytes, text) in [
            (0, "0 B"),
            (999, "999 B"),
            (1000, "1.00 kB"),
            (857_376, "857 kB"),
            (999_600, "1.00 MB"),
            (4_234_000_000, "4.23 GB"),
            (12_340_000, "12.3 MB"),
            (u64::MAX, "18447 PB"),
        ] {
            assert_eq!(human_bytes(bytes), text);
        }
    }

    #[test]
    fn durations_are_printed_with_units() {
        for (seconds, text) in
            [(0, "0 s"), (59, "59 s"), (200, "3 min 20 s"), (7500, "2 h 5 min"), (260_000, "3 days")]
        {
            assert_eq!(human_duration(Duration::from_secs(seconds)), text);
        }
    }

    #[test]
    fn progress_line_shows_rate_and_remaining_time() {
        let line = progress_line(1_200_000_000, 14_500_000_000, Duration::from_secs(5));
        assert_eq!(line, "1.20 GB of 14.5 GB read (8 %), 240 MB/s, 55 s left");
        assert_eq!(progress_line(0, 0, Duration::ZERO), "0 B of 0 B read (0 %), 0 B/s, 0 s left");
    }

    #[test]
    fn control_characters_in_names_are_escaped() {
        assert_eq!(printable("a\u{1b}[2Jb\nc ä"), "a\\u{1b}[2Jb\\nc ä");
    }
}
