//! Runs every line of `golden/quant/` through the codecs; used by the test and by the example `compared`.

use std::{
    collections::BTreeSet,
    fs,
    path::PathBuf,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

use gguf_quant::{CODECS, Codec, Level, Rows};
use gguf_testkit::{QuantCase, Task, compare_blocks, decoded_sha256, sha256};

#[derive(Debug, Default)]
pub struct Outcome {
    pub name: String,
    pub n_cases: usize,
    /// Elements encoded without importance weights and compared, at each level.
    pub n_plain_elems: usize,
    /// Elements encoded with importance weights and compared, at each level.
    pub n_weighted_elems: usize,
    /// Elements decoded and compared, at each level.
    pub n_decoded_elems: usize,
    /// One entry for each level and line that differs.
    pub differences: Vec<String>,
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../golden/quant")
}

/// Golden files without a codec, and codecs without a golden file.
pub fn unmatched() -> Vec<String> {
    let codecs: BTreeSet<String> = CODECS.iter().map(|codec| format!("{}.txt", codec.dtype)).collect();
    let files: BTreeSet<String> = fs::read_dir(folder())
        .expect("golden/quant is part of the repository")
        .map(|entry| entry.expect("readable folder").file_name().to_string_lossy().into_owned())
        .collect();
    codecs.symmetric_difference(&files).cloned().collect()
}

/// Compares all codecs at all `levels`, in the order of [`CODECS`].
pub fn compare_all(levels: &[Level]) -> Vec<Outcome> {
    let next = AtomicUsize::new(0);
    let n_threads = thread::available_parallelism().map_or(1, usize::from);
    let mut outcomes: Vec<(usize, Outcome)> = thread::scope(|scope| {
        let work = || {
            let mut outcomes = Vec::new();
            loop {
                let i = next.fetch_add(1, Ordering::Relaxed);
                let Some(codec) = CODECS.get(i) else { return outcomes };
                outcomes.push((i, compare(codec, levels)));
            }
        };
        let threads: Vec<_> = (0..n_threads).map(|_| scope.spawn(work)).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("no panic in a comparison")).collect()
    });
    outcomes.sort_by_key(|(i, _)| *i);
    outcomes.into_iter().map(|(_, outcome)| outcome).collect()
}

fn compare(codec: &Codec, levels: &[Level]) -> Outcome {
    let name = codec.dtype.name();
    let mut outcome = Outcome { name: name.to_owned(), ..Outcome::default() };
    let Ok(text) = fs::read_to_string(folder().join(format!("{name}.txt"))) else { return outcome };
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    for (line, number) in lines.zip(1..) {
        let Some(case) = QuantCase::parse(line) else {
            outcome.differences.push(format!("{name}: line {number} cannot be read: {line:.60}"));
            continue;
        };
        outcome.n_cases += 1;
        let n_elems = case.n_elems();
        outcome.n_decoded_elems += n_elems;
        match case.task {
            Task::Encode(_, None) => outcome.n_plain_elems += n_elems,
            Task::Encode(_, Some(_)) => outcome.n_weighted_elems += n_elems,
            Task::Decode => {}
        }
        let (values, weights) = (case.values(), case.weights());
        for &level in levels {
            if let Err(report) = run(codec, &case, number, level, values.as_deref(), weights.as_deref()) {
                outcome.differences.push(format!("{name}, {}, level {level:?}: {report}", case.name()));
            }
        }
    }
    outcome
}

fn run(
    codec: &Codec,
    case: &QuantCase,
    number: usize,
    level: Level,
    values: Option<&[f32]>,
    weights: Option<&[f32]>,
) -> Result<(), String> {
    let dtype = codec.dtype;
    let (block_elems, block_bytes) = (dtype.block_elems() as usize, dtype.block_bytes() as usize);
    let n_bytes = case.n_elems() / block_elems * block_bytes;
    let blocks = match values {
        None => gguf_testkit::bytes(case.seed(), n_bytes),
        Some(values) => {
            // In two calls: rows must be independent.
            let mut blocks = vec![0; n_bytes];
            let first_rows = case.n_rows / 3;
            let (first, second) = values.split_at(first_rows * case.row_elems);
            let (first_out, second_out) = blocks.split_at_mut(n_bytes / case.n_rows * first_rows);
            for (values, out) in [(first, first_out), (second, second_out)] {
                let rows = Rows { values, row_elems: case.row_elems, weights };
                gguf_quant::encode(dtype, level, rows, out).map_err(|error| error.to_string())?;
            }
            blocks
        }
    };
    if sha256(&blocks) != case.bytes_sha256 {
        let sample = compare_blocks(&case.sample, &blocks, block_bytes);
        let raw = std::env::var_os("QUANT_GOLDEN_RAW")
            .and_then(|folder| fs::read(PathBuf::from(folder).join(format!("{dtype}.{number}.bin"))).ok())
            .and_then(|raw| compare_blocks(&raw, &blocks, block_bytes));
        return Err(raw.or(sample).unwrap_or_else(|| {
            format!(
                "bytes differ, though not in the sample; make all bytes with `scripts/golden/make quant \
                 --only {dtype} --input raw={number} --build DIR --golden OUT` and name OUT/quant in QUANT_GOLDEN_RAW"
            )
        }));
    }
    let mut decoded = vec![0.0; case.n_elems()];
    gguf_quant::decode(dtype, level, &blocks, &mut decoded).map_err(|error| error.to_string())?;
    if decoded_sha256(&decoded) != case.decoded_sha256 {
        return Err("decoded values differ".to_owned());
    }
    Ok(())
}
