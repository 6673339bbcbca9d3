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
    borrow::Cow,
    fmt,
    io::{self, BufRead, IsTerminal, Read, Write},
    sync::{
        Arc, Mutex, Once, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicI32, Ordering},
    },
    time::{Duration, Instant},
};

use anstyle::{AnsiColor, Style};
use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use serde::Serialize;
use serde_json::json;

use gguf_toolkit::{
    Events, Message, process,
    progress_line::LogPace,
    table::{WIDTH, wrapped_to},
    text::{human_bytes, human_duration, is_invisible, pretty_json, printable},
};

use crate::failure::{EXIT_INTERRUPTED, Failure, hint_texts};

/// Amount of output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ui {
    /// Print only errors.
    pub quiet: bool,
    /// Also print details.
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

/// Shortest work that allows an estimate of the remaining time.
const WARM_UP: Duration = Duration::from_secs(5);

/// True if the command has written to stdout.
static HAS_DATA: AtomicBool = AtomicBool::new(false);

/// Prints `label: text` to stderr, escaping characters that could move a terminal's cursor. A terminal gets lines that end
/// between words. A closed stderr is not an error.
fn say(style: Style, label: &str, text: &str) {
    let label = if label.is_empty() { String::new() } else { format!("{label}:") };
    let space = if label.is_empty() { "" } else { " " };
    let mut text = format!("{label}{space}{}", printable(text));
    if let Some(width) = width_of(io::stderr().is_terminal()) {
        text = wrapped_to(width, &text, 2).trim_end_matches('\n').to_owned();
    }
    let _ = writeln!(anstream::stderr(), "{style}{label}{style:#}{}", &text[label.len()..]);
}

/// Columns of the terminal; `None` without one.
fn width_of(is_terminal: bool) -> Option<usize> {
    is_terminal
        .then(|| terminal_size::terminal_size().map_or(WIDTH, |(width, _)| usize::from(width.0).max(20)))
}

/// The text as stdout gets it: for a terminal with these characters escaped, except for line ends and tabs.
fn for_stdout(text: &str, is_terminal: bool, is_escaped: impl Fn(char) -> bool) -> Cow<'_, str> {
    let is_escaped = |character: char| !matches!(character, '\n' | '\t') && is_escaped(character);
    if !is_terminal || !text.chars().any(is_escaped) {
        return text.into();
    }
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        if is_escaped(character) {
            shown += &printable(character.encode_utf8(&mut [0; 4]));
        } else {
            shown.push(character)
        }
    }
    shown.into()
}

impl Ui {
    /// Writes data to stdout. A terminal gets control characters escaped: they come from files and models, and could move the
    /// cursor. A closed pipe is not an error.
    ///
    /// # Errors
    /// stdout cannot be written.
    pub fn data(&self, text: &str) -> Result<(), Failure> {
        self.write(&for_stdout(text, io::stdout().is_terminal(), char::is_control))
    }

    /// As [`Ui::data`], for the contents of a file that a person inspects: a terminal gets invisible characters escaped, too.
    ///
    /// # Errors
    /// Those of [`Ui::data`].
    pub fn contents(&self, text: &str) -> Result<(), Failure> {
        let is_hidden = |character: char| character.is_control() || is_invisible(character);
        self.write(&for_stdout(text, io::stdout().is_terminal(), is_hidden))
    }

    fn write(&self, text: &str) -> Result<(), Failure> {
        HAS_DATA.store(true, Ordering::Relaxed);
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

    /// Writes a value to stdout as JSON on one line.
    ///
    /// # Errors
    /// Those of [`Ui::data`].
    pub fn json_line(&self, value: &impl Serialize) -> Result<(), Failure> {
        self.data(&(serde_json::to_string(value).map_err(Failure::new)? + "\n"))
    }

    /// Writes data with styles to stdout; only terminals get the styles.
    ///
    /// # Errors
    /// Those of [`Ui::data`].
    pub fn styled_data(&self, text: &str) -> Result<(), Failure> {
        match anstream::AutoStream::choice(&io::stdout()) {
            anstream::ColorChoice::Never => self.data(&anstream::adapter::strip_str(text).to_string()),
            _ => self.write(text),
        }
    }

    /// Writes a failure to stdout as JSON, unless stdout has other data.
    pub fn json_failure(&self, failure: &Failure) {
        if !HAS_DATA.load(Ordering::Relaxed) {
            // The failure is also reported on stderr.
            let _ = self.json(&json!({ "error": failure.to_string(), "hints": hint_texts(failure) }));
        }
    }

    /// Prints a failure and its hints.
    pub fn failure(&self, failure: &Failure) {
        say(ERROR, "error", &failure.to_string());
        for hint in hint_texts(failure) {
            say(HINT, "hint", &hint);
        }
    }

    /// Prints something that may not be what the user wants.
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

    /// Prints a fact that the user should know.
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
}

/// A line of text that is updated in place on a terminal; ordinary lines in a log. It is cleared when it goes out of scope.
#[derive(Debug)]
struct StatusLine {
    ui: Ui,
    bar: Option<ProgressBar>,
}

impl gguf_toolkit::StatusLine for StatusLine {
    fn is_updating(&self) -> bool {
        self.bar.is_some()
    }

    fn show(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.set_message(printable(text)),
            None => self.ui.status(text),
        }
    }

    fn finish(&self, text: &str) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        self.ui.status(text);
    }
}

impl Ui {
    /// True if a person types at a terminal.
    pub fn is_interactive(&self) -> bool {
        io::stdin().is_terminal()
    }

    /// Columns for data; `None` if stdout is not a terminal.
    pub fn data_width(&self) -> Option<usize> {
        width_of(io::stdout().is_terminal())
    }

    /// Reads standard input to its end, without the newline there. Bytes that are not UTF-8 are replaced.
    ///
    /// # Errors
    /// stdin cannot be read.
    pub fn read_input(&self) -> Result<String, Failure> {
        let mut bytes = Vec::new();
        io::stdin().lock().read_to_end(&mut bytes).map_err(no_input)?;
        let text = String::from_utf8_lossy(&bytes);
        let text = text.strip_suffix('\n').unwrap_or(&text);
        Ok(text.strip_suffix('\r').unwrap_or(text).to_owned())
    }

    /// Reads a message: a line of standard input, and those after it while lines end in a backslash. `None` at the end of the
    /// input.
    ///
    /// # Errors
    /// stdin cannot be read.
    pub fn read_message(&self) -> Result<Option<String>, Failure> {
        let mut message = String::new();
        loop {
            if self.is_interactive() {
                // A closed stderr is not an error.
                let _ = write!(anstream::stderr(), "{}", if message.is_empty() { "> " } else { ". " });
            }
            let mut line = Vec::new();
            if io::stdin().lock().read_until(b'\n', &mut line).map_err(no_input)? == 0 {
                return Ok((!message.is_empty()).then_some(message));
            }
            let line = String::from_utf8_lossy(&line);
            let line = line.trim_end_matches(['\r', '\n']);
            let Some(line) = line.strip_suffix('\\') else { return Ok(Some(message + line)) };
            message += line;
            message.push('\n');
        }
    }
}

fn no_input(error: io::Error) -> Failure {
    Failure::new(format_args!("cannot read stdin: {error}"))
}

/// While this lives, the first Ctrl-C asks the answer to stop instead of ending the process.
#[derive(Debug)]
pub struct StoppableAnswer(());

/// True while an answer can be stopped.
static ANSWERING: AtomicBool = AtomicBool::new(false);
/// True after Ctrl-C during an answer.
static ANSWER_STOPPED: AtomicBool = AtomicBool::new(false);

impl StoppableAnswer {
    /// An answer begins.
    pub fn begin() -> StoppableAnswer {
        static INSTALLED: Once = Once::new();
        INSTALLED.call_once(|| {
            on_stop_signals(|signal| {
                STOPPED_BY.store(signal, Ordering::SeqCst);
                if signal != SIGINT || !ANSWERING.swap(false, Ordering::SeqCst) {
                    std::process::exit(interrupted_code().into());
                }
                ANSWER_STOPPED.store(true, Ordering::SeqCst);
            });
        });
        ANSWER_STOPPED.store(false, Ordering::SeqCst);
        ANSWERING.store(true, Ordering::SeqCst);
        StoppableAnswer(())
    }

    /// True after Ctrl-C.
    pub fn is_stopped(&self) -> bool {
        ANSWER_STOPPED.load(Ordering::SeqCst)
    }
}

impl Drop for StoppableAnswer {
    fn drop(&mut self) {
        ANSWERING.store(false, Ordering::SeqCst);
    }
}

impl Events for Ui {
    fn message(&self, message: Message<'_>) {
        match message {
            Message::Warning(text) => self.warning(&text.to_string()),
            Message::Note(text) => self.note(&text.to_string()),
            Message::Detail(text) => self.detail(&text.to_string()),
            Message::Status(text) => self.status(&text.to_string()),
            _ => {}
        }
    }

    /// A bar on a terminal, otherwise a few lines.
    fn progress(&self, total_bytes: u64) -> Box<dyn gguf_toolkit::Progress + '_> {
        Box::new(Progress::new(*self, total_bytes, io::stderr().is_terminal(), Instant::now()))
    }

    fn status_line(&self) -> Box<dyn gguf_toolkit::StatusLine> {
        let bar = (io::stderr().is_terminal() && !self.quiet).then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            match ProgressStyle::with_template("{wide_msg}") {
                Ok(style) => bar.with_style(style),
                Err(_) => bar,
            }
        });
        Box::new(StatusLine { ui: *self, bar })
    }

    fn cancel(&self) -> Arc<AtomicBool> {
        cancel_on_interrupt()
    }

    fn ends_soon(&self, words: Box<dyn Fn() -> Failure + Send>) -> Box<dyn gguf_toolkit::Guard + '_> {
        *LAST_WORDS.lock().unwrap_or_else(PoisonError::into_inner) = Some((*self, words));
        Box::new(EndsSoon(()))
    }
}

impl gguf_toolkit::Guard for EndsSoon {}

impl Drop for StatusLine {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// A bar that is removed when it goes out of scope, or lines instead of one.
#[derive(Debug)]
struct Progress {
    bar: ProgressBar,
    lines: Option<Lines>,
}

/// Progress for a log.
#[derive(Debug)]
struct Lines {
    ui: Ui,
    started: Instant,
    pace: Mutex<LogPace>,
}

impl Progress {
    /// Progress that began at `started`. It prints nothing if messages are off.
    fn new(ui: Ui, total_bytes: u64, has_terminal: bool, started: Instant) -> Progress {
        let is_shown = has_terminal && !ui.quiet;
        let target = if is_shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(total_bytes), target);
        let template = "{bar:40} {decimal_bytes}/{decimal_total_bytes} {decimal_bytes_per_sec} {left}";
        if let Ok(style) = ProgressStyle::with_template(template) {
            // The first rows are slower.
            bar.set_style(style.with_key("left", |state: &ProgressState, text: &mut dyn fmt::Write| {
                if state.elapsed() >= WARM_UP {
                    let _ = write!(text, "{:#}", HumanDuration(state.eta()));
                }
            }));
        }
        let lines = (!has_terminal && !ui.quiet).then(|| Lines {
            ui,
            started,
            pace: Mutex::new(LogPace::since(started)),
        });
        Progress { bar, lines }
    }

    /// Adds bytes and returns the line that is due in a log.
    fn line_after(&self, bytes: u64) -> Option<String> {
        self.bar.inc(bytes);
        let lines = self.lines.as_ref()?;
        // Another thread is printing already.
        let mut pace = lines.pace.try_lock().ok()?;
        let (done, total) = (self.bar.position(), self.bar.length().unwrap_or(0));
        pace.is_due(done as f64 / total.max(1) as f64)
            .then(|| progress_line(done, total, lines.started.elapsed()))
    }
}

impl gguf_toolkit::Progress for Progress {
    fn add(&self, bytes: u64) {
        if let (Some(line), Some(lines)) = (self.line_after(bytes), &self.lines) {
            lines.ui.status(&line);
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

/// Time from the first signal until a process whose work does not stop is ended. The end itself takes the rest of a second.
const PATIENCE: Duration = Duration::from_millis(800);

/// As long as this lives, a signal ends the process within a second, even if its threads wait for a disk.
#[derive(Debug)]
struct EndsSoon(());

impl Drop for EndsSoon {
    fn drop(&mut self) {
        let words = LAST_WORDS.lock().unwrap_or_else(PoisonError::into_inner).take();
        // Another thread prints them and ends the process.
        while words.is_none() {
            std::thread::park();
        }
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

/// Lets a panic, which is a bug, end the process with exit code 101 and without temporary files. The release profile does not
/// unwind.
pub fn exit_on_panic() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        report(panic);
        process::remove_temporary_files();
        std::process::exit(101);
    }));
}

/// Number of the signal of Ctrl-C.
const SIGINT: i32 = 2;

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
                process::remove_temporary_files();
                std::process::exit(interrupted_code().into());
            }
            // If the thread cannot start, the run ends when the workers next check the flag.
            let _ = std::thread::Builder::new().spawn(end_soon);
        });
        cancel
    };
    Arc::clone(CANCEL.get_or_init(install))
}

/// Calls `stop` with the number of each signal that asks the process to end. If no handler can be installed,
/// they end the process as usual.
#[cfg(unix)]
fn on_stop_signals(stop: impl Fn(i32) + Send + 'static) {
    use signal_hook::{
        consts::{SIGHUP, SIGTERM},
        iterator::Signals,
    };
    let wanted = [SIGINT, SIGTERM, SIGHUP]
        .into_iter()
        .filter(|signal| *signal != SIGHUP || !process::is_signal_ignored(SIGHUP));
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
        // The signal itself is ignored; the write returns the error.
        let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::new(AtomicBool::new(false)));
    }
}

#[cfg(not(unix))]
fn on_stop_signals(stop: impl Fn(i32) + Send + 'static) {
    let _ = ctrlc::set_handler(move || stop(SIGINT));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminal_gets_no_escape_sequences() {
        let text = "a\u{1b}[2J\u{9b}1m\tb\u{202e}\n";
        assert_eq!(for_stdout(text, true, char::is_control), "a\\u{1b}[2J\\u{9b}1m\tb\u{202e}\n");
        assert_eq!(for_stdout(text, true, is_invisible), "a\u{1b}[2J\u{9b}1m\tb\\u{202e}\n");
        assert_eq!(for_stdout(text, false, char::is_control), text);
    }

    #[test]
    fn progress_line_shows_rate_and_remaining_time() {
        let line = progress_line(1_200_000_000, 14_500_000_000, Duration::from_secs(5));
        assert_eq!(line, "1.20 GB of 14.5 GB read (8 %), 240 MB/s, 55 s left");
        assert_eq!(progress_line(0, 0, Duration::ZERO), "0 B of 0 B read (0 %), 0 B/s, 0 s left");
    }

    #[test]
    fn progress_without_terminal_prints_lines() {
        let ui = Ui { quiet: false, verbose: false };
        let now = Instant::now();
        assert_eq!(Progress::new(ui, 4_000_000, false, now).line_after(1_000_000), None, "too early");
        let begun = now.checked_sub(Duration::from_secs(10)).expect("the machine runs for 10 s");
        let progress = Progress::new(ui, 4_000_000, false, begun);
        let line = progress.line_after(1_000_000).expect("a line is due");
        assert!(line.starts_with("1.00 MB of 4.00 MB read (25 %), ") && line.ends_with(" left"), "{line}");
        assert_eq!(progress.line_after(1_000_000), None, "a line was printed");
        for (quiet, has_terminal) in [(true, false), (false, true)] {
            assert_eq!(Progress::new(Ui { quiet, ..ui }, 4_000_000, has_terminal, begun).line_after(1), None);
        }
    }
}
