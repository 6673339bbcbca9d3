//! Loss of quantization: the base runs once for each chunk, together with every file.
//!
//! For each token, the 29 bytes of a [`Position`] are stored, never a file of logits. More chunks can be
//! added later, and only those are run. Chunks run in groups that start at fixed places, so that an
//! interrupted measurement gives the same bytes.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::atomic::Ordering,
};

use gguf_runtime::{
    Model, Options,
    chunks::Chunk,
    compare::{Base, Step, run},
    embed::{Pooling, embed, pooling},
    stats::{Comparison, Estimate, Position, percentile},
};
use gguf_types::counted;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{context::Context, files::WrittenFile, interruption::ends_soon, work::fingerprint};
use crate::{
    error::Error,
    eval_model::{of_model, of_open, open},
    events::Events,
    outputs::write_file,
    progress_line::ProgressLine,
    text::human_bytes,
};

/// Number of most likely tokens that are compared.
pub const TOP_K: usize = 10;

/// Metrics of a file, each with its standard error.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Mean divergence from the base, in nats; the others are its percentiles.
    pub divergence: Estimate,
    pub divergence_median: Estimate,
    pub divergence_p99: Estimate,
    pub divergence_p99_9: Estimate,
    pub divergence_max: f64,
    /// Share of positions with the same most likely token.
    pub same_top: Estimate,
    pub perplexity: Estimate,
    pub perplexity_ratio: Estimate,
}

/// Metrics of an embedding model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VectorFigures {
    /// One less the cosine between the base's vector of a text and the file's.
    pub distance: Estimate,
    pub distance_max: f64,
    /// Distance of each text.
    #[serde(skip)]
    pub distances: Vec<f64>,
}

/// Measurements of all files.
#[derive(Debug, Default)]
pub struct Measured {
    /// Positions of each file, in order; none if embeddings were compared.
    pub positions: Vec<Vec<Position>>,
    pub vectors: Vec<VectorFigures>,
    pub windows: usize,
}

/// Text of a measurement.
pub struct On<'a> {
    pub windows: &'a [Chunk],
    /// Digest of the chunks.
    pub digest: &'a str,
    pub context: usize,
}

/// Compares files with their base and skips finished measurements.
///
/// # Errors
/// A model that cannot be run, an interruption.
pub fn measure(
    base: &Model,
    base_fingerprint: &str,
    files: &[WrittenFile],
    on: &On<'_>,
    context: &Context<'_>,
) -> Result<Measured, Error> {
    let (events, run_options) = (context.events, &context.args.run());
    let wanted = on.windows.len();
    let _guard = ends_soon(events);
    if !predicts_tokens(base) {
        return vectors(base, files, on, run_options, events);
    }
    let of_window = on.windows.first().map_or(0, |window| window.counted.len()) * Position::STORED_BYTES;
    let store = |file: &WrittenFile| store(base_fingerprint, file, on, context);
    let mut positions: Vec<Vec<u8>> =
        files.iter().map(|file| fs::read(store(file)).unwrap_or_default()).collect();
    // A group of windows runs together, and one that is not whole is run again when there are more windows.
    let group = base.sequences_at_once(on.context);
    for stored in &mut positions {
        let n = stored.len() / of_window.max(1);
        let n = if n >= wanted { wanted } else { n / group * group };
        stored.truncate(n * of_window);
    }
    let n_done = |stored: &Vec<u8>| stored.len() / of_window.max(1);
    let cancel = events.cancel();
    let mut is_reported = false;
    while let Some(first) = positions.iter().map(n_done).filter(|n| *n < wanted).min() {
        // Those that are this far, up to where the next ones are.
        let which: Vec<usize> = (0..files.len()).filter(|i| n_done(&positions[*i]) == first).collect();
        let next = positions.iter().map(n_done).filter(|n| *n > first).min().unwrap_or(wanted).min(wanted);
        let others = which
            .iter()
            .map(|i| open(files[*i].first(), run_options, events))
            .collect::<Result<Vec<_>, Error>>()?;
        if !is_reported {
            tell_memory(base, &others, on.context, events);
            is_reported = true;
        }
        let mut progress = ProgressLine::new("chunks", next);
        // Sum and number of the divergences of the windows before these.
        let mut before: Vec<(f64, usize)> = which.iter().map(|i| sum_of(&positions[*i])).collect();
        let names: Vec<&str> = which.iter().map(|i| files[*i].file_type.as_str()).collect();
        let paths: Vec<&Path> = which.iter().map(|i| files[*i].first()).collect();
        let mut at_window = first;
        while at_window < next {
            let end = (at_window + group).min(next);
            let mut watch = |step: Step<'_>| {
                match step {
                    // Later groups are in the progress.
                    Step::Runs(Some(other)) if at_window == first => {
                        let chunks = format!(" (chunks {} to {end} of {wanted})", first + 1);
                        tell_file(&files[which[other]], other, which.len(), &chunks, events);
                    }
                    Step::Runs(_) => {}
                    Step::Compared { n_chunks, found } => {
                        progress.update(events, n_chunks, || means(&names, found, &before));
                    }
                }
                !cancel.load(Ordering::Relaxed)
            };
            let range = (on.windows, at_window..end);
            let found = run(&Base::Model(base), &others, range, TOP_K, None, &mut watch).map_err(
                |error| match error {
                    error @ gguf_runtime::Error::OfOther { .. } => of_model(Path::new(""), &paths, error),
                    error => of_open(base, error),
                },
            )?;
            if cancel.load(Ordering::Relaxed) {
                return Err(Error::interrupted());
            }
            for (i, found) in which.iter().zip(&found) {
                positions[*i].extend(found.iter().flat_map(Position::to_bytes));
                write_file(&store(&files[*i]), &positions[*i], true)?;
            }
            before = which.iter().map(|i| sum_of(&positions[*i])).collect();
            at_window = end;
        }
    }
    let positions = positions
        .iter()
        .map(|stored| {
            let (all, _) = stored.as_chunks::<{ Position::STORED_BYTES }>();
            all.iter().map(Position::from_bytes).collect()
        })
        .collect();
    Ok(Measured { positions, vectors: Vec::new(), windows: wanted })
}

/// The mean divergence of each file, for the progress. `before` has sum and number of the divergences of earlier windows.
fn means(names: &[&str], found: &[Vec<Position>], before: &[(f64, usize)]) -> String {
    let mean = |(found, (sum, n)): (&Vec<Position>, &(f64, usize))| {
        let all = found.iter().map(|position| position.kl).sum::<f64>() + sum;
        format!("{:.4}", all / (found.len() + n).max(1) as f64)
    };
    let means: Vec<String> = found.iter().zip(before).map(mean).collect();
    match &means[..] {
        [one] => format!("KL divergence {one}"),
        _ => {
            let named = names.iter().zip(&means).map(|(name, mean)| format!("{name} {mean}"));
            format!("KL divergence {}", named.collect::<Vec<_>>().join(", "))
        }
    }
}

/// Sum and number of the divergences of stored positions.
fn sum_of(stored: &[u8]) -> (f64, usize) {
    let (all, _) = stored.as_chunks::<{ Position::STORED_BYTES }>();
    (all.iter().map(|bytes| Position::from_bytes(bytes).kl).sum(), all.len())
}

/// Path of the stored positions of a file.
pub fn store(base_fingerprint: &str, file: &WrittenFile, on: &On<'_>, context: &Context<'_>) -> PathBuf {
    let activations = context.args.activations().name();
    let of = json!([base_fingerprint, file.fingerprint, on.digest, on.context, activations, TOP_K]);
    context.work.path(&format!("measured-{}-{}", file.file_type, &fingerprint(&of)[..16]))
}

/// Reports that a file, counted from 0, begins to run.
fn tell_file(file: &WrittenFile, index: usize, n_files: usize, on: &str, events: &dyn Events) {
    events.status(format!("measuring {}, file {} of {n_files}{on}", file.name(), index + 1));
}

/// Reports the memory of a measurement: files are mapped, and rows of a few chunks are in memory.
fn tell_memory(base: &Model, others: &[Model], context: usize, events: &dyn Events) {
    let mapped: u64 = [base].into_iter().chain(others).map(|model| model.file().tensor_bytes()).sum();
    // Rows between layers of one model at a time, and logits of the base and of one file.
    let logits = 2 * base.logit_rows_at_once() * base.n_vocab() * size_of::<f32>();
    let rows = (base.bytes_at_once(context) + logits) as u64;
    events.status(format!(
        "comparing {} with the base: {} memory-mapped, about {} of additional memory",
        counted(others.len(), "file"),
        human_bytes(mapped),
        human_bytes(rows)
    ));
}

/// True if the loss of a model is that of its next tokens. An embedder or a reranker on a decoder has no trained output matrix.
pub fn predicts_tokens(model: &Model) -> bool {
    model.need_next_token().is_ok() && matches!(model.pooling(), None | Some(Pooling::None))
}

/// Compares the vectors of the windows, of a model that predicts no token.
fn vectors(
    base: &Model,
    files: &[WrittenFile],
    on: &On<'_>,
    run_options: &Options,
    events: &dyn Events,
) -> Result<Measured, Error> {
    if base.is_encoder_decoder() || base.audio_input().is_some() {
        events.warning("skipping measurements: the model is an encoder-decoder");
        return Ok(Measured::default());
    }
    let texts: Vec<Vec<u32>> = on.windows.iter().map(|window| window.tokens.clone()).collect();
    let pooled = match pooling(base, None) {
        Ok(Pooling::Rank | Pooling::None) | Err(_) => Pooling::Mean,
        Ok(pooling) => pooling,
    };
    let of =
        |path: &Path, model: &Model| embed(model, &texts, pooled).map_err(|error| Error::at(path, error));
    let expected = of(Path::new("the base"), base)?;
    let mut vectors = Vec::new();
    for (index, file) in files.iter().enumerate() {
        tell_file(file, index, files.len(), "", events);
        let found = of(file.first(), &open(file.first(), run_options, events)?)?;
        let distances: Vec<f64> = expected.iter().zip(&found).map(|(a, b)| 1.0 - cosine(a, b)).collect();
        let distance_max = distances.iter().copied().fold(0.0, f64::max);
        let distance = Estimate::mean(distances.iter().copied());
        vectors.push(VectorFigures { distance, distance_max, distances });
    }
    Ok(Measured { positions: Vec::new(), vectors, windows: texts.len() })
}

fn cosine(a: &[f32], b: &[f32]) -> f64 {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>();
    let norms = (dot(a, a) * dot(b, b)).sqrt();
    if norms > 0.0 { dot(a, b) / norms } else { 1.0 }
}

impl Figures {
    /// Computes metrics from the positions of a file over this many chunks.
    pub fn of(positions: &[Position], n_windows: usize) -> Figures {
        let all = Comparison::of(positions, TOP_K);
        let kl: Vec<f64> = positions.iter().map(|position| position.kl).collect();
        let quantile = |fraction| quantile(&kl, n_windows, fraction);
        Figures {
            divergence: all.kl,
            divergence_median: quantile(0.5),
            divergence_p99: quantile(0.99),
            divergence_p99_9: quantile(0.999),
            divergence_max: all.kl_quantiles.maximum,
            same_top: all.same_top,
            perplexity: all.perplexity,
            perplexity_ratio: all.perplexity_ratio,
        }
    }
}

/// A percentile of values, and its standard error by the bootstrap: how it varies when whole windows are drawn anew, since the
/// positions of one window go together. No error is stated of fewer than four windows.
fn quantile(values: &[f64], n_windows: usize, fraction: f64) -> Estimate {
    const DRAWS: u64 = 64;
    let of = |mut values: Vec<f64>| {
        values.sort_by(f64::total_cmp);
        percentile(&values, fraction)
    };
    let value = of(values.to_vec());
    let n = values.len().checked_div(n_windows).unwrap_or(0);
    if n == 0 || n_windows < 4 {
        return Estimate { value, error: 0.0 };
    }
    let drawn = |draw: u64| {
        let window = |i: usize| {
            let at = (hash(draw * 1_000_003 + i as u64) % n_windows as u64) as usize;
            &values[at * n..(at + 1) * n]
        };
        of((0..n_windows).flat_map(window).copied().collect())
    };
    let draws: Vec<f64> = (0..DRAWS).map(drawn).collect();
    let mean = draws.iter().sum::<f64>() / DRAWS as f64;
    let variance = draws.iter().map(|draw| (draw - mean).powi(2)).sum::<f64>() / (DRAWS - 1) as f64;
    Estimate { value, error: variance.sqrt() }
}

/// A number that looks like chance and is the same every time (splitmix64).
fn hash(n: u64) -> u64 {
    let mut z = n.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// For each file the first that is no larger and surely better, if there is one: bytes of each, and by how much the second of two
/// costs more than the first.
pub fn dominated(bytes: &[u64], excess: impl Fn(usize, usize) -> Estimate) -> Vec<Option<usize>> {
    // Twice the standard error, so that differences that another text would reverse are ignored.
    let is_surely_better = |other: usize, file: usize| excess(other, file).is_surely_positive();
    let by = |file: usize| {
        (0..bytes.len()).find(|other| bytes[*other] <= bytes[file] && is_surely_better(*other, file))
    };
    (0..bytes.len()).map(by).collect()
}

impl Measured {
    /// By how much the second file of two costs more than the first, as the mean over chunks of text.
    pub fn excess(&self, first: usize, second: usize) -> Estimate {
        let costs = |file: usize| match (self.positions.get(file), self.vectors.get(file)) {
            (Some(positions), _) => {
                let of_chunk = (positions.len() / self.windows.max(1)).max(1);
                let sum = |chunk: &[Position]| chunk.iter().map(|position| position.kl).sum::<f64>();
                positions.chunks(of_chunk).map(|chunk| sum(chunk) / chunk.len() as f64).collect()
            }
            (None, Some(found)) => found.distances.clone(),
            (None, None) => Vec::new(),
        };
        let (first, second): (Vec<f64>, Vec<f64>) = (costs(first), costs(second));
        Estimate::paired(&first, &second).widened(first.len().min(second.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn larger_and_worse_types_are_dominated() {
        let of = |files: &[(u64, f64)], error: f64| {
            let bytes: Vec<u64> = files.iter().map(|file| file.0).collect();
            dominated(&bytes, |a, b| Estimate { value: files[b].1 - files[a].1, error })
        };
        let files = [(100, 0.5), (200, 0.1), (300, 0.2), (400, 0.05), (400, 0.05)];
        assert_eq!(of(&files, 0.0), [None, None, Some(1), None, None]);
        assert_eq!(of(&files, 0.06), [None; 5], "a difference that may be chance");
        assert_eq!(of(&[(100, 0.5), (100, 0.4)], 0.0), [Some(1), None]);
        assert_eq!(of(&[(100, f64::NAN), (200, 0.1)], 0.0), [None, None]);
    }

    #[test]
    fn differences_are_paired_by_chunk() {
        // Two chunks of two positions; the second file is better in one chunk and worse in the other.
        let of = |values: [f64; 4]| values.map(|kl| Position { kl, ..Position::default() }).to_vec();
        let measured = |second| Measured {
            positions: vec![of([0.1, 0.1, 0.5, 0.5]), of(second)],
            vectors: Vec::new(),
            windows: 2,
        };
        let sure = measured([0.2, 0.2, 0.6, 0.6]).excess(0, 1);
        assert!((sure.value - 0.1).abs() < 1e-12 && sure.error < 1e-12, "{sure:?}");
        let unsure = measured([0.3, 0.3, 0.5, 0.5]).excess(0, 1);
        assert!(unsure.value > 0.0 && unsure.value < 2.0 * unsure.error, "{unsure:?}");
        let one = Measured { windows: 1, ..measured([0.2, 0.2, 0.6, 0.6]) }.excess(0, 1);
        assert!(one.error.is_infinite() || one.error.is_nan(), "{one:?}");
    }

    #[test]
    fn percentile_errors_grow_with_window_differences() {
        let alike: Vec<f64> = (0..800).map(|i| f64::from(i % 100)).collect();
        let (median, error) = (quantile(&alike, 8, 0.5).value, quantile(&alike, 8, 0.5).error);
        assert_eq!((median, error), (49.5, 0.0));
        let apart: Vec<f64> = (0..800).map(|i| f64::from(i % 100) + f64::from(i / 100) * 10.0).collect();
        assert!(quantile(&apart, 8, 0.5).error > 1.0);
        assert_eq!(quantile(&apart, 8, 0.5), quantile(&apart, 8, 0.5), "chance is the same every time");
        assert_eq!(quantile(&alike, 2, 0.5).error, 0.0);
    }

    #[test]
    fn cosines_match_hand_computed() {
        assert!((cosine(&[1.0, 0.0], &[3.0, 4.0]) - 0.6).abs() < 1e-12);
        assert_eq!(cosine(&[0.0], &[0.0]), 1.0);
    }
}
