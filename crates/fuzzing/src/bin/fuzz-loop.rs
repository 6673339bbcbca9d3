//! The mutation loop for long runs, and the seeds as files. `scripts/fuzz-long` calls it.
//!
//! ```text
//! fuzz-loop corpora DIR                       writes the seeds of each target to DIR/TARGET/
//! fuzz-loop list                              names of targets
//! fuzz-loop run DIR TARGET FROM SECONDS       runs mutants from number FROM on for this time; prints a line:
//!     target  next number  runs  accepted  slowest ms  its mutant  most bytes  its mutant  failures
//! fuzz-loop show DIR TARGET NUMBER            writes a mutant to stdout
//! ```

use std::{
    env, fs,
    io::Write,
    path::Path,
    process::ExitCode,
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

use gguf_fuzzing::{Loop, Memory, Report, TARGETS, target};
use peak_alloc::PeakAlloc;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// Seconds after which an execution and the program are aborted.
const GIVEN_UP: u64 = 60;

/// Allocator that counts the bytes in use.
struct Counted(AtomicU64);

impl Memory for Counted {
    fn begin(&self) {
        ALLOCATOR.reset_peak_usage();
        self.0.store(ALLOCATOR.current_usage() as u64, Ordering::Relaxed);
    }

    fn grown(&self) -> usize {
        ALLOCATOR.peak_usage().saturating_sub(self.0.load(Ordering::Relaxed) as usize)
    }
}

fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        ["list"] => TARGETS.iter().for_each(|target| println!("{}", target.name)),
        ["corpora", dir] => corpora(Path::new(dir)),
        ["run", dir, name, from, seconds] => {
            let (Ok(from), Ok(seconds)) = (from.parse(), seconds.parse()) else { return ExitCode::from(2) };
            run(&loop_of(Path::new(dir), name), name, from, seconds);
        }
        ["show", dir, name, number] => {
            let Ok(number) = number.parse() else { return ExitCode::from(2) };
            let bytes = loop_of(Path::new(dir), name).mutant(number);
            std::io::stdout().write_all(&bytes).expect("stdout takes bytes");
        }
        _ => {
            eprintln!(
                "usage: fuzz-loop corpora DIR | list | run DIR TARGET FROM SECONDS | show DIR TARGET NUMBER"
            );
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}

fn corpora(dir: &Path) {
    for target in TARGETS {
        let folder = dir.join(target.name);
        fs::create_dir_all(&folder).expect("a folder for seeds");
        let seeds = (target.seeds)();
        println!("{}: {} seeds", target.name, seeds.len());
        for (index, seed) in seeds.iter().enumerate() {
            fs::write(folder.join(format!("{index:04}")), seed).expect("space for seeds");
        }
    }
}

fn loop_of(dir: &Path, name: &str) -> Loop {
    let target = target(name).expect("a target of this name");
    let entries = fs::read_dir(dir.join(name)).expect("a folder of seeds");
    let mut paths: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    Loop::new(target, paths.iter().filter_map(|path| fs::read(path).ok()).collect(), 1)
}

/// Number of the running mutant, which a crash leaves for the watcher's report.
static RUNNING: AtomicU64 = AtomicU64::new(0);

fn run(mutants: &Loop, name: &str, from: u64, seconds: u64) {
    let begin = Instant::now();
    let mut report = Report::default();
    let memory = Counted(AtomicU64::new(0));
    RUNNING.store(from, Ordering::Relaxed);
    std::panic::set_hook(Box::new(|_| {}));
    let watched = name.to_owned();
    thread::spawn(move || {
        let mut before = u64::MAX;
        loop {
            thread::sleep(Duration::from_secs(GIVEN_UP));
            let now = RUNNING.load(Ordering::Relaxed);
            if now == before {
                eprintln!("{watched}: mutant {now} hangs");
                std::process::abort();
            }
            before = now;
        }
    });
    let mut next = from;
    // With FUZZ_ANNOUNCE each number is written before it runs, so that a crash can be identified.
    let announces = env::var_os("FUZZ_ANNOUNCE").is_some();
    while begin.elapsed().as_secs() < seconds {
        for number in next..next + 50 {
            RUNNING.store(number, Ordering::Relaxed);
            if announces {
                eprintln!("{number}");
            }
            mutants.step(number, &memory, &mut report);
        }
        next += 50;
    }
    let Report { n_runs, n_accepted, slowest, largest, failures } = report;
    println!(
        "{name}\t{next}\t{n_runs}\t{n_accepted}\t{}\t{}\t{}\t{}\t{}",
        slowest.0.as_millis(),
        slowest.1,
        largest.0,
        largest.1,
        serde_json::to_string(&failures).expect("texts and numbers")
    );
}
