//! Calibrated files: each like a quantization of the base with a calibration, made in order.

use std::{
    fs,
    path::PathBuf,
    sync::{Arc, atomic::AtomicBool},
};

use gguf_conversion::imatrix::Imatrix;

use super::{
    base::{self, Base},
    context::Context,
    digests, importance,
    interruption::ends_soon,
    ladder::Entry,
    work::Work,
};
use crate::{
    calibration::{Budget, BudgetOptions, CalibrationOptions},
    convert::{
        Parts, RunArgs,
        quantize_model::{self, QuantizeJob},
    },
    error::Error,
    events::{Events, Guard, Message, Progress, StatusLine},
    settings::Settings,
};

/// Folder of statistics, which all files share.
const STATISTICS: &str = "statistics";

/// A calibration of all files.
pub struct Calibrating {
    pub options: CalibrationOptions,
    /// Digest of everything that it depends on.
    pub digest: String,
}

/// A file to write.
pub struct File<'a> {
    pub entry: Entry,
    /// Its path if it has no shards.
    pub path: PathBuf,
    /// Digest of everything that its tensors depend on.
    pub digest: String,
    pub imatrix: Option<&'a Imatrix>,
    /// Limit of a shard in bytes.
    pub split_max_size: u64,
}

/// Writes a calibrated file and returns the path of its first shard. An interrupted run is resumed.
///
/// # Errors
/// Texts that are too short, a target size that is too small, an output that cannot be written, an interruption.
pub fn write(
    base: &Base,
    file: File<'_>,
    calibrating: &Calibrating,
    context: &mut Context<'_>,
) -> Result<PathBuf, Error> {
    let File { entry, path, digest, imatrix, split_max_size } = file;
    let settings = Settings::of_imatrix(imatrix.cloned(), importance::NAME);
    let size = base::sizes(base, &[entry.recipe], &settings.request())?.into_iter().next().unwrap_or(0);
    // A calibration never makes a file larger.
    let is_split = entry.target_size.unwrap_or(size) > split_max_size;
    let settings = if is_split { settings.split(split_max_size) } else { settings };
    let (work, events) = (&mut context.work, context.events);
    let folder = work.path(STATISTICS);
    // Statistics of another text, or of another model.
    if work.standing::<bool>(STATISTICS, &calibrating.digest).is_none() {
        remove_statistics(work);
        work.done(STATISTICS, &calibrating.digest, &[], &true)?;
    }
    let begun = format!("begun {}", entry.label());
    let is_begun = work.standing::<bool>(&begun, &digest).is_some();
    work.done(&begun, &digest, &[], &true)?;
    let calibration = CalibrationOptions { statistics: Some(folder), ..calibrating.options.clone() };
    let budget = BudgetOptions { limit: entry.target_size.map(Budget::Size), ..BudgetOptions::default() };
    let job = QuantizeJob {
        families: gguf_models::FAMILIES,
        base: &base.path,
        input: &base.path,
        adapters: &[],
        format: "GGUF",
        recipes: vec![entry.recipe],
        settings,
        calibration: &calibration,
        budget: &budget,
    };
    let args = RunArgs {
        out: Some(&path),
        force: true,
        resume: is_begun,
        resumable: true,
        dry_run: false,
        gathers: true,
        options: context.run.clone(),
        call: context.call.clone().argument("stage", digest),
        parts: Parts::Whole,
    };
    events.status(format!("calibrating {}", entry.label()));
    let report = quantize_model::run(digests::open(&base.path)?, job, args, &Within(events))?.written()?;
    report.paths().into_iter().next().ok_or_else(|| Error::new("missing file of a type"))
}

/// Events of a step within a publication, which another call of the publication resumes.
struct Within<'a>(&'a dyn Events);

impl Events for Within<'_> {
    fn message(&self, message: Message<'_>) {
        self.0.message(message);
    }

    fn progress(&self, n_bytes: u64) -> Box<dyn Progress + '_> {
        self.0.progress(n_bytes)
    }

    fn status_line(&self) -> Box<dyn StatusLine> {
        self.0.status_line()
    }

    fn cancel(&self) -> Arc<AtomicBool> {
        self.0.cancel()
    }

    fn ends_soon(&self, _: Box<dyn Fn() -> Error + Send>) -> Box<dyn Guard + '_> {
        ends_soon(self.0)
    }
}

/// Removes the statistics of a calibration.
pub fn remove_statistics(work: &Work) {
    // They are only worth the time to collect them again.
    let _ = fs::remove_dir_all(work.path(STATISTICS));
}
