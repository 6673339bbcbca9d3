//! Changes bytes of good files, seeded, and reads the result: never a panic, never more
//! memory than the file's length can justify.
//!
//! `FUZZ_ITERATIONS` sets the number of mutants (a few thousand without it), `FUZZ_SEED`
//! where they start. Alone in its program, so that no other test's memory is counted.

use gguf_container::{File, Metadata, Plan, Value, swap_blocks};
use gguf_testkit::{Draw, mutate, number};

use self::random::{Content, Random};

#[cfg(test)]
#[path = "all/random.rs"]
mod random;

/// The largest size of this process's memory so far, touched or not, in bytes.
fn peak() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmPeak:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? * 1024)
}

/// Bytes that the values hold.
fn held(metadata: &Metadata) -> usize {
    metadata
        .iter()
        .map(|(key, value)| {
            key.len()
                + match value {
                    Value::String(text) => text.capacity(),
                    Value::Array(items) => held_array(items),
                    _ => 8,
                }
        })
        .sum()
}

fn held_array(array: &gguf_container::Array) -> usize {
    match array {
        gguf_container::Array::String(items) => items.held_bytes(),
        gguf_container::Array::Array(items) => items.iter().map(|item| 32 + held_array(item)).sum(),
        other => 8 * other.len(),
    }
}

#[test]
fn mutated_files_are_read_or_refused() {
    let mut random = Random(Draw::new(number("FUZZ_SEED", 1)));
    let n_mutants = number("FUZZ_ITERATIONS", 5000);
    let (mut n_good, mut n_bad) = (0, 0);
    // The plans below are of version 3, in both byte orders.
    let older = ["model-v1", "model-v2", "model-v2-big"].map(|name| {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../golden/byte-orders");
        std::fs::read(format!("{folder}/{name}.gguf")).unwrap()
    });
    let before = peak();
    for i in 0..n_mutants {
        let mut bytes = if random.0.below(2) == 0 {
            random.0.of(&older).clone()
        } else {
            let content = Content::new(&mut random);
            let plan = Plan::new(&content.metadata, content.tensors, content.endian, content.alignment);
            plan.unwrap().to_bytes(&content.data).unwrap()
        };
        mutate(&mut bytes, &mut random.0);
        let len = bytes.len();
        match File::parse(bytes) {
            Err(error) => {
                assert!(!error.to_string().is_empty());
                n_bad += 1;
            }
            Ok(file) => {
                n_good += 1;
                assert!(held(file.metadata()) <= 8 * len, "mutant {i}");
                for tensor in file.tensors() {
                    let mut data = file.data(tensor).unwrap().to_vec();
                    swap_blocks(tensor.dtype, &mut data);
                }
                // A file that was read can be planned again, or is refused with a reason: the reader accepts
                // alignments and keys that the writer does not. Large alignments are left out, because their
                // padding takes memory.
                if file.alignment() > 4096 {
                    continue;
                }
                let tensors = file.tensors().iter().map(|t| (t.name.clone(), t.shape, t.dtype)).collect();
                if let Ok(plan) = Plan::new(file.metadata(), tensors, file.endian(), file.alignment()) {
                    let data: Vec<&[u8]> = file.tensors().iter().map(|t| file.data(t).unwrap()).collect();
                    let again = File::parse(plan.to_bytes(&data).unwrap()).unwrap();
                    assert_eq!(again.tensors().len(), file.tensors().len(), "mutant {i}");
                }
            }
        }
    }
    // Both kinds come up, or the mutants test nothing.
    assert!(n_good > n_mutants / 50 && n_bad > n_mutants / 50, "{n_good} good, {n_bad} bad");
    if let (Some(before), Some(after)) = (before, peak()) {
        assert!(after - before < 128 << 20, "peak memory grew from {before} to {after} bytes");
    }
}
