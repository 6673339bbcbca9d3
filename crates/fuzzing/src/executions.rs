//! The mutation loop: numbered mutants of valid inputs, their cost, and failures.

use std::{
    collections::BTreeMap,
    panic::{AssertUnwindSafe, catch_unwind},
    time::{Duration, Instant},
};

use gguf_testkit::{Draw, mix};

use crate::Mutation;

/// A longer execution is a hang.
pub const MAX_SECONDS: f64 = 1.0;
/// Memory limit of an execution beyond its input, in bytes.
pub const MAX_BYTES: usize = 64 << 20;
/// Maximum size of a seed, in bytes, if smaller ones exist: small inputs run more often.
const SEED_BYTES: usize = 64 << 10;

/// Maximum number of mutants of one failure in a report.
const NAMED: usize = 20;

/// A reader of untrusted bytes.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// Name for [`run`](crate::run()).
    pub name: &'static str,
    /// Description of the input, for display.
    pub reads: &'static str,
    /// Runs the target on bytes; true if it accepted them.
    pub run: fn(&[u8]) -> bool,
    /// Valid and nearly valid inputs.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Kind of mutation.
    pub mutation: Mutation,
    /// Memory limit of an execution beyond its input, in bytes: [`MAX_BYTES`], unless the decoded input is
    /// larger than its file.
    pub max_bytes: usize,
}

/// Counter of the memory in use.
pub trait Memory {
    /// Resets the peak.
    fn begin(&self);

    /// Bytes of the peak above the use at [`begin`](Memory::begin).
    fn grown(&self) -> usize;
}

/// Summary of a target's executions.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// Number of executions.
    pub n_runs: u64,
    /// Number of accepted inputs.
    pub n_accepted: u64,
    /// Slowest execution: time and number of its mutant.
    pub slowest: (Duration, u64),
    /// The execution with the most memory beyond its input: bytes, number of its mutant.
    pub largest: (usize, u64),
    /// Mutants that panicked, took too long or used too much memory, by failure.
    pub failures: BTreeMap<String, Vec<u64>>,
}

/// Mutants of a target's seeds, each derived from its number.
#[derive(Debug)]
pub struct Loop {
    target: &'static Target,
    seeds: Vec<Vec<u8>>,
    seed: u64,
}

impl Loop {
    /// Creates a loop over mutants of these seeds; each `seed` gives another sequence of mutants.
    ///
    /// # Panics
    /// If there is no seed.
    pub fn new(target: &'static Target, mut seeds: Vec<Vec<u8>>, seed: u64) -> Loop {
        if seeds.iter().any(|seed| seed.len() <= SEED_BYTES) {
            seeds.retain(|seed| seed.len() <= SEED_BYTES);
        }
        assert!(!seeds.is_empty(), "{} has no seeds", target.name);
        Loop { target, seeds, seed }
    }

    /// The mutant with this number; the first ones are the unchanged seeds.
    pub fn mutant(&self, number: u64) -> Vec<u8> {
        if let Some(seed) = self.seeds.get(number as usize) {
            return seed.clone();
        }
        let mut draw = Draw::new(mix(self.seed, number));
        let mut bytes = draw.of(&self.seeds).clone();
        self.target.mutation.apply(&mut bytes, &self.seeds, &mut draw);
        bytes
    }

    /// Runs one mutant and adds it to a report.
    pub fn step(&self, number: u64, memory: &dyn Memory, report: &mut Report) {
        let bytes = self.mutant(number);
        let fail = |report: &mut Report, failure: String| {
            let mutants = report.failures.entry(failure).or_default();
            if mutants.len() < NAMED {
                mutants.push(number);
            }
        };
        let mut took = Duration::MAX;
        // An execution that was slow because the machine was busy is fast when repeated.
        for _ in 0..3 {
            memory.begin();
            let begin = Instant::now();
            let ran = catch_unwind(AssertUnwindSafe(|| (self.target.run)(&bytes)));
            took = took.min(begin.elapsed());
            let grown = memory.grown();
            if grown > report.largest.0 {
                report.largest = (grown, number);
            }
            if grown > self.target.max_bytes {
                let most = self.target.max_bytes;
                fail(report, format!("more than {most} bytes besides the input"));
            }
            match ran {
                Ok(accepted) => report.n_accepted += u64::from(accepted),
                Err(panic) => {
                    let text = panic.downcast_ref::<String>().map(String::as_str);
                    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no text");
                    fail(report, format!("panic: {text}"));
                }
            }
            report.n_runs += 1;
            if took.as_secs_f64() < MAX_SECONDS / 4.0 {
                break;
            }
        }
        if took > report.slowest.0 {
            report.slowest = (took, number);
        }
        if took.as_secs_f64() > MAX_SECONDS {
            fail(report, format!("more than {MAX_SECONDS} s"));
        }
    }
}
