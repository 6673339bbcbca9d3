//! Mutants of valid files passed to every reader: each is accepted or refused, without panics, hangs or
//! disproportionate memory. Both results must occur, or the mutants are useless.
//!
//! `FUZZ_ITERATIONS` sets the number of mutants of each target, `FUZZ_SEED` the first one. The only test of
//! its program, so that no other memory is counted.

use std::sync::atomic::{AtomicUsize, Ordering};

use gguf_fuzzing::{Loop, Memory, Report, TARGETS};
use peak_alloc::PeakAlloc;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

struct Counted(AtomicUsize);

impl Memory for Counted {
    fn begin(&self) {
        ALLOCATOR.reset_peak_usage();
        self.0.store(ALLOCATOR.current_usage(), Ordering::Relaxed);
    }

    fn grown(&self) -> usize {
        ALLOCATOR.peak_usage().saturating_sub(self.0.load(Ordering::Relaxed))
    }
}

/// Targets whose executions take milliseconds, and the divisor of their number of mutants.
const SLOW: &[(&str, u64)] =
    &[("tokenizer", 20), ("tokenizer_keys", 10), ("lora", 10), ("config", 2), ("quantized", 2)];

#[test]
fn mutated_inputs_are_read_or_refused() {
    let (seed, n_mutants) =
        (gguf_testkit::number("FUZZ_SEED", 1), gguf_testkit::number("FUZZ_ITERATIONS", 600));
    let memory = Counted(AtomicUsize::new(0));
    let mut wrong = Vec::new();
    for target in TARGETS {
        let fewer = SLOW.iter().find(|(name, _)| *name == target.name).map_or(1, |(_, fewer)| *fewer);
        let n_mutants = n_mutants / fewer;
        let seeds = (target.seeds)();
        // The first ones are unchanged seeds.
        let n = n_mutants + seeds.len() as u64;
        let mutants = Loop::new(target, seeds, seed);
        let mut report = Report::default();
        (0..n).for_each(|number| mutants.step(number, &memory, &mut report));
        let Report { n_runs, n_accepted, failures, .. } = &report;
        println!("{}: {n_accepted} of {n_runs} accepted", target.name);
        if !failures.is_empty() {
            wrong.push(format!("{}: {failures:?}", target.name));
        }
        let least = n_mutants / 1000;
        if *n_accepted <= least || n_runs - n_accepted <= least {
            wrong.push(format!("{}: {n_accepted} of {n_runs} accepted", target.name));
        }
    }
    assert!(wrong.is_empty(), "from seed {seed}: {}", wrong.join("\n"));
}
