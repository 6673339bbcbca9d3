//! Mutated inputs: bytes changed by a seeded generator, and counts of results.
//!
//! `FUZZ_ITERATIONS` sets the number of mutants, `FUZZ_SEED` the first one.

use std::{
    collections::BTreeMap,
    panic::{AssertUnwindSafe, catch_unwind},
};

use crate::mix;

/// Numbers that are likely to be wrong as a count, a type or an offset.
pub const NASTY: [u64; 16] = [
    0,
    1,
    2,
    7,
    8,
    9,
    13,
    0x7f,
    0xff,
    0xffff,
    0x7fff_ffff,
    0xffff_ffff,
    1 << 32,
    1 << 62,
    i64::MAX as u64,
    u64::MAX,
];

/// Value of an environment variable, if it is a number.
pub fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

/// A sequence of random numbers.
#[derive(Debug, Clone, Copy)]
pub struct Draw {
    seed: u64,
    index: u64,
}

impl Draw {
    /// The sequence of this seed.
    pub fn new(seed: u64) -> Draw {
        Draw { seed, index: 0 }
    }

    /// The next number.
    pub fn bits(&mut self) -> u64 {
        self.index += 1;
        mix(self.seed, self.index)
    }

    /// The next number below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        (self.bits() % n.max(1) as u64) as usize
    }

    /// Returns one of the items at random.
    ///
    /// # Panics
    /// If there are no items.
    pub fn of<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }
}

/// Changes up to four places.
pub fn mutate(bytes: &mut Vec<u8>, draw: &mut Draw) {
    for _ in 0..=draw.below(4) {
        if bytes.is_empty() {
            return;
        }
        // Errors are most likely near the start, which contains counts.
        let reach = if draw.below(2) == 0 { bytes.len().min(64) } else { bytes.len() };
        let at = draw.below(reach);
        match draw.below(7) {
            0 => bytes[at] ^= 1 << draw.below(8),
            1 => bytes[at] = draw.bits() as u8,
            2 | 3 => {
                let number = *draw.of(&NASTY);
                let little = draw.below(2) == 0;
                let number = if little { number.to_le_bytes() } else { number.to_be_bytes() };
                let width = [1, 2, 4, 8][draw.below(4)].min(bytes.len() - at);
                let from = if little { 0 } else { 8 - width };
                bytes[at..at + width].copy_from_slice(&number[from..from + width]);
            }
            4 => bytes.truncate(at),
            5 => {
                let end = at + draw.below(32).min(bytes.len() - at);
                let piece = bytes[at..end].to_vec();
                let to = draw.below(bytes.len());
                bytes.splice(to..to, piece);
            }
            _ => {
                let end = at + draw.below(32).min(bytes.len() - at);
                bytes.drain(at..end);
            }
        }
    }
}

/// Passes mutants to `read`, which draws one and returns true if it was accepted. Accepted and refused
/// mutants must both occur, or the test is useless.
///
/// # Panics
/// If a mutant panicked, with its number; if fewer than one in a hundred was accepted, or refused.
pub fn mutants(default: u64, mut read: impl FnMut(&mut Draw) -> bool) {
    let (first, n_mutants) = (number("FUZZ_SEED", 1), number("FUZZ_ITERATIONS", default));
    let mut n_accepted = 0;
    let mut panics: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for mutant in 0..n_mutants {
        let mut draw = Draw::new(first + mutant);
        match catch_unwind(AssertUnwindSafe(|| read(&mut draw))) {
            Ok(accepted) => n_accepted += u64::from(accepted),
            Err(panic) => {
                let text = panic.downcast_ref::<String>().map(String::as_str);
                let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no text");
                panics.entry(text.to_owned()).or_default().push(mutant);
            }
        }
    }
    assert!(panics.is_empty(), "mutants that made a reader panic, from seed {first}: {panics:#?}");
    println!("{n_accepted} of {n_mutants} mutants accepted");
    let least = n_mutants / 100;
    assert!(n_accepted > least && n_mutants - n_accepted > least, "{n_accepted} of {n_mutants} accepted");
}
