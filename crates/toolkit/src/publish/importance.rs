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
use serde_json::Value;

use super::{
    interruption::ends_soon,
    texts::Text,
    work::{Work, sha256_of},
};
use crate::{
    error::Error, eval_model::of_open, events::Events, input_kind::not_an_imatrix, outputs::write_file,
    progress_line::ProgressLine, text::printable, unexecuted,
};

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
    pub texts: Vec<String>,
    pub windows: usize,
    /// Tokens in a window.
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

/// Collects the matrix, unless the stage is complete.
///
/// # Errors
/// An interruption, sums that are not finite, a file that cannot be written.
pub fn make(
    model: &Model,
    text: &Text,
    context: usize,
    fingerprint: &str,
    out: &Path,
    work: &mut Work,
    events: &dyn Events,
) -> Result<ImatrixFacts, Error> {
    let path = out.join(NAME);
    if let Some(facts) = work.standing(STAGE, fingerprint) {
        return Ok(facts);
    }
    let part = work.path(PART);
    let (mut collector, n_done) = continued(&part, fingerprint).unwrap_or_else(|| (Collector::new(false), 0));
    let (cancel, n) = (events.cancel(), text.windows.len());
    let mut progress = ProgressLine::new("chunks", n);
    let (mut n_read, mut saved) = (n_done, Instant::now());
    let _guard = ends_soon(events);
    for batch in text.windows.get(n_done..).unwrap_or_default().chunks(model.sequences_at_once(context)) {
        collector.add(model, batch).map_err(|error| of_open(model, error))?;
        n_read += batch.len();
        progress.update(events, n_read, || "importance matrix".to_owned());
        let is_cancelled = cancel.load(Ordering::Relaxed) && n_read < n;
        if is_cancelled || saved.elapsed() >= INTERVAL {
            let head = [fingerprint.as_bytes(), &(n_read as u64).to_le_bytes()].concat();
            write_file(&part, &[head, collector.to_part()].concat(), true)?;
            saved = Instant::now();
        }
        if is_cancelled {
            return Err(Error::interrupted());
        }
    }
    let mut sums = Sums::new(context as u32);
    sums.datasets = text.names.clone();
    sums.add(&collector.sums(context as u32).map_err(|error| of_open(model, error))?).map_err(Error::new)?;
    let gaps = gaps(&matrices(model), &sums);
    let unexecuted = unexecuted::names(model);
    if let Some(line) = unexecuted::line(model) {
        events.note(format!("{line}; types that need it are replaced by types that do not"));
    }
    for gap in gaps.iter().filter(|gap| !unexecuted.contains(&gap.tensor)) {
        let name = printable(&gap.tensor);
        match gap.experts.len() {
            0 => events.warning(format!("tensor `{name}`: no importance data")),
            n => events.warning(format!("tensor `{name}`: no token was routed to {n} of its experts")),
        }
    }
    let bytes = sums.to_bytes(Format::Gguf).map_err(|error| Error::at(&path, error))?;
    write_file(&path, &bytes, true)?;
    let facts = ImatrixFacts {
        file: NAME.to_owned(),
        sha256: sha256_of(&path)?,
        fingerprint: fingerprint.to_owned(),
        texts: text.names.clone(),
        windows: n,
        context,
        tokens: n * context,
        gaps: gaps.len(),
        unexecuted: unexecuted.len(),
    };
    work.done(STAGE, fingerprint, &[path], &facts)?;
    let _ = fs::remove_file(part);
    Ok(facts)
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
///
/// # Errors
/// A state that cannot be written.
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
pub fn kept(results: Option<&Value>, weights: &str, work: &Work) -> Option<ImatrixFacts> {
    let results = results.filter(|results| results["base"]["weights"] == weights);
    work.standing(STAGE, &published(results)?.fingerprint)
}

/// Reads an existing matrix.
///
/// # Errors
/// A file that cannot be read.
pub fn read(path: &Path) -> Result<Imatrix, Error> {
    let matrix = Imatrix::open(path).map_err(|error| not_an_imatrix(path, error))?;
    matrix.check().map_err(|error| Error::at(path, error))?;
    Ok(matrix)
}
