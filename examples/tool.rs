//! Converts a checkpoint, checks and measures the files, and lets the small one continue a text:
//! `cargo run --release --example tool -- CHECKPOINT FOLDER TEXT`. Enter stops it.

use std::{
    env,
    io::{self, IsTerminal},
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    thread,
};

use gguf_toolkit::{
    ChunkSettings, CompareOptions, Convert, Error, Events, FileType, GenerateOptions, Message, Model,
    Progress, RunOptions, StatusLine, Text, compare,
    hub::HubOptions,
    verify::{VerifyOptions, verify},
};

/// An error that `main` returns is printed with its hints.
fn main() -> Result<(), Error> {
    let args: Vec<String> = env::args().skip(1).collect();
    let console = Console::default();
    let stop = Arc::clone(&console.stop);
    thread::spawn(move || {
        if io::stdin().read_line(&mut String::new()).is_ok_and(|n_bytes| n_bytes > 0) {
            stop.store(true, Relaxed);
        }
    });
    let made = run(&args, &console)?;
    println!("{}: KL divergence {:.4} nats\n{}", made.file.display(), made.divergence, made.text);
    Ok(())
}

/// Writes messages and progress to stderr. Every call takes one and reports to it.
#[derive(Default)]
pub struct Console {
    /// Cancels the call that is running when it becomes true.
    pub stop: Arc<AtomicBool>,
}

impl Events for Console {
    fn message(&self, message: Message<'_>) {
        match message {
            Message::Warning(text) => eprintln!("warning: {text}"),
            Message::Note(text) | Message::Status(text) => eprintln!("{text}"),
            _ => {}
        }
    }

    fn progress(&self, n_bytes: u64) -> Box<dyn Progress + '_> {
        Box::new(Percent { total: n_bytes, done: AtomicU64::new(0) })
    }

    fn status_line(&self) -> Box<dyn StatusLine> {
        Box::new(Line)
    }

    fn cancel(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.stop)
    }
}

struct Percent {
    total: u64,
    done: AtomicU64,
}

impl Progress for Percent {
    fn add(&self, n_bytes: u64) {
        let before = self.done.fetch_add(n_bytes, Relaxed);
        let percent = |done: u64| done.saturating_mul(100) / self.total.max(1);
        if percent(before) < percent(before + n_bytes) {
            eprint!("\r{} %", percent(before + n_bytes));
        }
    }
}

impl Drop for Percent {
    fn drop(&mut self) {
        if self.done.load(Relaxed) > 0 {
            eprintln!();
        }
    }
}

/// Progress in chunks of text, with the result so far.
struct Line;

impl StatusLine for Line {
    fn is_updating(&self) -> bool {
        io::stderr().is_terminal()
    }

    fn show(&self, text: &str) {
        if self.is_updating() { eprint!("\r\x1b[K{text}") } else { eprintln!("{text}") }
    }

    fn finish(&self, text: &str) {
        self.show(text);
        if self.is_updating() {
            eprintln!();
        }
    }
}

/// The small file, its loss and its text.
pub struct Made {
    /// Path of the file in q4_k_m.
    pub file: PathBuf,
    /// Mean KL divergence from the file in bf16, in nats.
    pub divergence: f64,
    /// Continuation of the prompt.
    pub text: String,
}

/// Each call takes its options and the events, and returns a value or an error with hints.
pub fn run(args: &[String], events: &dyn Events) -> Result<Made, Error> {
    let [checkpoint, folder, text] = args else {
        return Err(Error::usage("wrong number of arguments").hint(["pass CHECKPOINT FOLDER TEXT"]));
    };
    let mut convert = Convert::new(checkpoint, [FileType::BF16, FileType::Q4_K_M]);
    convert.output.out = Some(Path::new(folder).join("model-{ftype}.gguf"));
    let files = convert.run(events)?.paths();

    for file in &files {
        let options = VerifyOptions {
            file: file.clone(),
            against: Some(checkpoint.into()),
            ..VerifyOptions::default()
        };
        // The source may be on the Hub.
        let report = verify(&options, &HubOptions::default(), events)?;
        // With the findings.
        report.verdict().map_err(|error| error.hint(report.text().lines().map(str::to_owned)))?;
    }

    let [base, small] = &files[..] else { return Err(Error::new("expected two files")) };
    let options = CompareOptions {
        base: base.clone(),
        files: vec![small.clone()],
        text: Some(Text::file(text)),
        chunks: ChunkSettings { n_chunks: Some(20), ..ChunkSettings::default() },
        ..CompareOptions::default()
    };
    let report = compare(&options, events)?.report;
    let found = report.files.into_iter().find_map(|file| file.predictions);
    let divergence = found.ok_or_else(|| Error::new("no predictions were compared"))?.kl.value;

    let model = Model::open(small, &RunOptions::default())?;
    let options = GenerateOptions { max_tokens: 16, ..GenerateOptions::default() };
    let mut on_text = |_: &str| ControlFlow::Continue(());
    let made = model.generate("Once upon a time", &options, &mut on_text, events)?;
    Ok(Made { file: small.clone(), divergence, text: made.text })
}
