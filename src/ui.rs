//! The only code that knows progress bars, colour and stderr.
//!
//! Data goes to stdout and is the same with and without a terminal. Talk goes to stderr, is
//! readable without colour, and is silent with `--quiet` except for errors.

use std::{
    io::{self, Write},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use anstyle::{AnsiColor, Style};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::failure::{EXIT_INTERRUPTED, Failure};

/// How much is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ui {
    /// Nothing but errors.
    pub quiet: bool,
    /// Everything.
    pub verbose: bool,
}

const ERROR: Style = AnsiColor::Red.on_default().bold();
const WARNING: Style = AnsiColor::Yellow.on_default().bold();
const HINT: Style = AnsiColor::Cyan.on_default().bold();
const PLAIN: Style = Style::new();

/// Says `label: text` on stderr, escaping what could move a terminal's cursor. A stderr that is
/// closed is no reason to stop.
fn say(style: Style, label: &str, text: &str) {
    let _closed = match label {
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

impl Ui {
    /// Writes data to stdout. A reader that has gone away is the end, not an error.
    ///
    /// # Errors
    /// What the system says when stdout cannot be written.
    pub fn data(&self, text: &str) -> Result<(), Failure> {
        let mut stdout = io::stdout().lock();
        match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            Err(error) => Err(Failure::new(format_args!("cannot write to stdout: {error}"))),
            Ok(()) => Ok(()),
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

    /// What has been done.
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

    /// What only the curious want to know.
    pub fn detail(&self, text: &str) {
        if self.verbose {
            self.note(text);
        }
    }

    /// A bar for `total_bytes` of input; draws nothing where stderr is no terminal.
    pub fn progress(&self, total_bytes: u64) -> Progress {
        let target = if self.quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
        let bar = ProgressBar::with_draw_target(Some(total_bytes), target);
        let template = "{bar:40} {bytes}/{total_bytes} {bytes_per_sec} {eta}";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        Progress { bar }
    }
}

/// A bar that is taken away when it goes out of scope.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// So many more bytes are done. Callable from any thread.
    pub fn add(&self, bytes: u64) {
        self.bar.inc(bytes);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// A flag that Ctrl-C sets. Whoever works looks at it, stops and tidies up; a second Ctrl-C ends
/// the process at once.
pub fn cancel_on_interrupt() -> Arc<AtomicBool> {
    let cancel = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&cancel);
    let handler = move || {
        if flag.swap(true, Ordering::SeqCst) {
            std::process::exit(EXIT_INTERRUPTED.into());
        }
    };
    // Without a handler Ctrl-C ends the process as it always does; that is no reason not to run.
    let _unavailable = ctrlc::set_handler(handler);
    cancel
}

/// A size for people: `857 kB`, `4.2 GB`. Powers of 1000, as disks and downloads are sold.
pub fn human_bytes(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["B", "kB", "MB", "GB", "TB", "PB"];
    let mut size = bytes as f64;
    let mut unit = 0;
    // What would print as 1000 belongs to the next unit.
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
    fn sizes_for_people() {
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
    fn names_cannot_move_the_cursor() {
        assert_eq!(printable("a\u{1b}[2Jb\nc ä"), "a\\u{1b}[2Jb\\nc ä");
    }
}
