//! Importance matrix of the base over the calibration text, saved as it grows.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use gguf_conversion::imatrix::Imatrix;
use gguf_imatrix::{Format, Sums};
use gguf_runtime::{
    Model,
    importance::{Collector, gaps, matrices},
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    context::{Context, Made, Stage},
    interruption::ends_soon,
    texts::{self, For, Named, Text},
    work::{Work, fingerprint, sha256_of},
};
use crate::{
    error::Error, eval_model::of_open, input_kind::not_an_imatrix, outputs::write_file,
    progress_line::ProgressLine, text::printable, unexecuted,
};
use gguf_types::{counted, words};

/// The name of the matrix, in the published folder and in the keys of files made with it.
pub const NAME: &str = "imatrix.gguf";
/// The stage of the matrix.
const STAGE: &str = "imatrix";
/// File of an unfinished matrix: fingerprint, number of chunks, then the sums.
const PART: &str = "imatrix.part";
/// The shortest time between two of these.
const INTERVAL: Duration = Duration::from_secs(10);

/// Facts about a matrix.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ImatrixFacts {
    pub file: String,
    pub sha256: String,
    /// Digest of everything that it depends on.
    #[serde(default)]
    pub fingerprint: String,
    /// Texts that it was collected on.
    pub texts: Vec<Named>,
    pub chunks: usize,
    /// Tokens in a chunk.
    pub context: usize,
    pub tokens: usize,
    /// Matrices without an entry, or with experts that no token was routed to.
    pub gaps: usize,
    /// Matrices that are not executed, such as those of MTP layers.
    #[serde(default, skip_serializing_if = "is_none")]
    pub unexecuted: usize,
}

fn is_none(count: &usize) -> bool {
    *count == 0
}

/// Collects the sums of a text over all chunks, and saves them as they grow.
fn collect(model: &Model, text: &Text, key: &str, context: &Context<'_>) -> Result<Collector, Error> {
    let (events, part) = (context.events, context.work.path(PART));
    let (mut collector, n_done) = continued(&part, key).unwrap_or_else(|| (Collector::new(false), 0));
    let (cancel, n) = (events.cancel(), text.windows.len());
    events.status(format!("importance matrix: {}", counted(n, "chunk")));
    let mut progress = ProgressLine::new("chunks", n);
    let (mut n_read, mut saved) = (n_done, Instant::now());
    let at_once = model.sequences_at_once(context.args.context());
    for batch in text.windows.get(n_done..).unwrap_or_default().chunks(at_once) {
        collector.add(model, batch).map_err(|error| of_open(model, error))?;
        n_read += batch.len();
        progress.update(events, n_read, || "importance matrix".to_owned());
        let is_cancelled = cancel.load(Ordering::Relaxed) && n_read < n;
        if is_cancelled || saved.elapsed() >= INTERVAL {
            let head = [key.as_bytes(), &(n_read as u64).to_le_bytes()].concat();
            write_file(&part, &[head, collector.to_part()].concat(), true)?;
            saved = Instant::now();
        }
        if is_cancelled {
            return Err(Error::interrupted());
        }
    }
    Ok(collector)
}

/// Writes the matrix of a text.
fn write(model: &Model, text: &Text, key: &str, context: &Context<'_>) -> Result<Made<ImatrixFacts>, Error> {
    let (path, n_tokens) = (context.args.dir.join(NAME), context.args.context());
    let _guard = ends_soon(context.events);
    let collector = collect(model, text, key, context)?;
    let mut sums = Sums::new(n_tokens as u32);
    sums.datasets = text.files.iter().map(|file| file.name.clone()).collect();
    sums.add(&collector.sums(n_tokens as u32).map_err(|error| of_open(model, error))?).map_err(Error::new)?;
    let gaps = gaps(&matrices(model), &sums);
    let unexecuted = unexecuted::names(model);
    if let Some(line) = unexecuted::line(model) {
        context.events.note(format!("{line}; types that need it are replaced by types that do not"));
    }
    for gap in gaps.iter().filter(|gap| !unexecuted.contains(&gap.tensor)) {
        let name = printable(&gap.tensor);
        context.events.warning(match gap.experts.len() {
            0 => format!("tensor `{name}`: no importance data"),
            n => format!("tensor `{name}`: no token was routed to {n} of its experts"),
        });
    }
    let bytes = sums.to_bytes(Format::Gguf).map_err(|error| Error::at(&path, error))?;
    write_file(&path, &bytes, true)?;
    let facts = ImatrixFacts {
        file: NAME.to_owned(),
        sha256: sha256_of(&path)?,
        fingerprint: key.to_owned(),
        texts: text.files.clone(),
        chunks: text.windows.len(),
        context: n_tokens,
        tokens: text.windows.len() * n_tokens,
        gaps: gaps.len(),
        unexecuted: unexecuted.len(),
    };
    Ok((vec![path], facts))
}

/// State that an interrupted run saved.
fn continued(part: &PathBuf, fingerprint: &str) -> Option<(Collector, usize)> {
    let bytes = fs::read(part).ok()?;
    let rest = bytes.strip_prefix(fingerprint.as_bytes())?;
    let (n_read, sums) = rest.split_at_checked(8)?;
    let n_read = u64::from_le_bytes(n_read.try_into().ok()?);
    let mut collector = Collector::new(false);
    collector.add_part(sums).ok()?;
    Some((collector, usize::try_from(n_read).ok()?))
}

/// The matrix that the run of `results` left.
fn published(results: Option<&Value>) -> Option<ImatrixFacts> {
    let facts = ImatrixFacts::deserialize(&results?["importance"]).ok()?;
    (!facts.fingerprint.is_empty()).then_some(facts)
}

/// Takes over the matrix of `out` if no stage holds it, for example in a clone, and it is as the run of `results` left it.
pub fn adopt(
    results: Option<&Value>,
    unchanged: &BTreeSet<String>,
    out: &Path,
    work: &mut Work,
) -> Result<(), Error> {
    match published(results).filter(|_| unchanged.contains(NAME) && !work.holds(STAGE)) {
        Some(facts) => work.done(STAGE, &facts.fingerprint, &[out.join(NAME)], &facts),
        None => Ok(()),
    }
}

/// The matrix that the run of `results` left, whose texts are on another machine; `None` if it was changed or is of other
/// weights.
fn kept(results: Option<&Value>, weights: &str, work: &Work) -> Option<ImatrixFacts> {
    let results = results.filter(|results| results["base"]["weights"] == weights);
    work.standing(STAGE, &published(results)?.fingerprint)
}

/// The matrix of a publication, unless the call wants none: the one of the last run if its texts are known by name only,
/// or else one that is collected.
///
/// # Errors
/// A matrix that must be kept and cannot, a text that cannot be read, an interruption.
pub fn make(
    model: &Model,
    weights: &str,
    results: Option<&Value>,
    keeps_matrix: bool,
    context: &mut Context<'_>,
) -> Result<Option<ImatrixFacts>, Error> {
    let Context { args, events, .. } = *context;
    if args.no_imatrix {
        return Ok(None);
    }
    if keeps_matrix {
        let facts = kept(results, weights, &context.work).ok_or_else(|| {
            let texts: Vec<String> =
                args.imatrix_text.iter().map(|path| printable(&path.display().to_string())).collect();
            let hint = words!("pass its texts again: [-imatrix-text {}]", texts.join(" "));
            Error::at(&args.dir.join(NAME), "missing, changed, or made for other weights").hint([hint])
        })?;
        return Ok(Some(facts));
    }
    // Texts to calibrate on are better than the built-in one.
    let files = if args.imatrix_text.is_empty() { &args.calibrate } else { &args.imatrix_text };
    let mut text = texts::read(model, files, For::Calibration, args.context(), events)?;
    text.windows.truncate(args.imatrix_chunks.map_or(usize::MAX, |n| n as usize));
    if files.is_empty() {
        text.tell_small("the importance matrix is from", "imatrix-text", events);
    }
    let (n, activations) = (text.windows.len(), args.activations().name());
    let of = json!([STAGE, context.program, weights, text.digest, n, args.context(), activations]);
    let key = fingerprint(&of);
    let stage = Stage { name: STAGE, key: &key, folder: None };
    let facts = context.make(&stage, |context| write(model, &text, &key, context))?;
    let _ = fs::remove_file(context.work.path(PART));
    Ok(Some(facts))
}

/// Reads an existing matrix.
pub fn read(path: &Path) -> Result<Imatrix, Error> {
    let matrix = Imatrix::open(path).map_err(|error| not_an_imatrix(path, error))?;
    matrix.check().map_err(|error| Error::at(path, error))?;
    Ok(matrix)
}
