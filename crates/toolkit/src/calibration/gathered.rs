//! Second moments of the inputs of matrices, stored in the folder of `--statistics` or temporarily next to
//! the output.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::atomic::Ordering,
};

use gguf_imatrix::Sums;
use gguf_refinement::moments::{
    Found, MomentsCache, Options, Plan, Summary, Texts, Watch, gather as gather_moments,
};
use gguf_runtime::Model;

use super::{names::failed, texts::WINDOW};
use crate::{
    error::Error,
    events::Events,
    failure::rm,
    hidden_files::moments_path,
    progress_line::ProgressLine,
    text::{human_bytes, printable},
};
use gguf_types::words;

/// Names of tensors in a warning.
const NAMED: usize = 3;

/// Collected statistics.
pub struct Gathered {
    pub moments: MomentsCache,
    /// Their folder.
    pub folder: Folder,
    /// The importance matrix of the same text.
    pub sums: Sums,
    /// Identifies model, text and method.
    pub fingerprint: String,
}

/// A folder of statistics.
#[derive(Debug, Clone)]
pub struct Folder {
    /// Its path.
    pub path: PathBuf,
    /// True if the folder is not needed after this run.
    pub is_temporary: bool,
}

/// Reports the progress of a stage.
pub struct Progress<'a> {
    what: &'static str,
    line: Option<ProgressLine>,
    events: &'a dyn Events,
}

impl<'a> Progress<'a> {
    /// Progress over steps named `what`.
    pub fn new(what: &'static str, events: &'a dyn Events) -> Progress<'a> {
        Progress { what, line: None, events }
    }
}

impl Watch for Progress<'_> {
    // Everything is in the cache.
    fn found(&mut self, _: Found) -> Result<(), gguf_refinement::Error> {
        Ok(())
    }

    fn progress(&mut self, done: usize, of: usize) -> bool {
        let line = self.line.get_or_insert_with(|| ProgressLine::new(self.what, of));
        line.update(self.events, done, String::new);
        !self.events.cancel().load(Ordering::Relaxed)
    }
}

/// Runs the model over chunks, or reads the result from the folder.
///
/// # Errors
/// Statistics of another model or text; too few tokens; inputs that are not finite; an interruption.
pub fn gather(
    model: &Model,
    base: &Path,
    texts: &Texts,
    folder: Folder,
    events: &dyn Events,
) -> Result<Gathered, Error> {
    let options = Options::default();
    let plan = Plan::new(model, texts, &options).map_err(|error| failed(base, error))?;
    let (memory, disk) = (human_bytes(plan.memory_bytes()), human_bytes(plan.file_bytes));
    events.status(format!(
        "reading {} tokens: {memory} of memory, {disk} of statistics in {}",
        texts.n_tokens(),
        folder.path.display()
    ));
    let open = || MomentsCache::open(&folder.path, model, texts, &options, &plan);
    let mut moments = folder.opened(&folder.path, open).map_err(|error| {
        let hint = matches!(error, gguf_refinement::Error::OtherMoments { .. }).then_some(words!(
            "use a separate [-statistics] folder for each model and text; it is created if it does not exist"
        ));
        failed(base, error).hint(hint)
    })?;
    let mut progress = Progress::new("steps", events);
    let summary = gather_moments(model, texts, &options, &plan, Some(&mut moments), &mut progress);
    let summary = summary.map_err(|error| folder.stopped(base, error))?;
    warn(&summary, events);
    let sums = summary
        .importance
        .sums(WINDOW as u32)
        .map_err(|error| failed(base, gguf_refinement::Error::Eval(error)))?;
    let fingerprint = format!("{} {}", moments.model(), texts.digests().join(" "));
    Ok(Gathered { moments, folder, sums, fingerprint })
}

/// Warns about inputs with little or unusable data.
fn warn(summary: &Summary, events: &dyn Events) {
    let names = |of: &[(String, gguf_runtime::Part)]| {
        of.first().map_or(String::new(), |(tensor, _)| printable(tensor))
    };
    let listed = |all: Vec<String>| {
        let more = all.len().saturating_sub(NAMED);
        let named = all.into_iter().take(NAMED).collect::<Vec<_>>().join(", ");
        if more > 0 { format!("{named} and {more} more") } else { named }
    };
    for (inputs, problem) in [
        (summary.unreached.iter().map(|of| names(of)).collect(), "no token reached an expert of"),
        (summary.too_wide.iter().map(|of| names(of)).collect(), "too wide to collect statistics in memory:"),
        (summary.dead.iter().map(|(of, _)| names(of)).collect(), "some input columns are always zero for"),
        (
            summary.few.iter().map(|(of, _)| names(of)).collect::<Vec<_>>(),
            "fewer than 4 tokens per input column for",
        ),
    ] {
        if !inputs.is_empty() {
            events.warning(format!("{problem} {}", listed(inputs)));
        }
    }
}

impl Folder {
    /// The folder of a call whose first output is `out`.
    pub fn of(kept: Option<&Path>, out: &Path) -> Folder {
        let path = kept.map_or_else(|| moments_path(out), Path::to_owned);
        Folder { path, is_temporary: kept.is_none() }
    }

    /// Opens the statistics at `path`. Leftovers of another run in a temporary folder are useless and are removed.
    pub(super) fn opened(
        &self,
        path: &Path,
        open: impl Fn() -> Result<MomentsCache, gguf_refinement::Error>,
    ) -> Result<MomentsCache, gguf_refinement::Error> {
        use gguf_refinement::Error as E;
        match open() {
            Err(E::OtherMoments { .. } | E::BrokenMoments { .. }) if self.is_temporary => {
                let _ = fs::remove_dir_all(path);
                open()
            }
            opened => opened,
        }
    }

    /// Error of a run over the texts. Errors that would occur again leave no files.
    pub(super) fn stopped(&self, base: &Path, error: gguf_refinement::Error) -> Error {
        match error {
            gguf_refinement::Error::Interrupted => Error::interrupted(),
            error @ (gguf_refinement::Error::Io { .. } | gguf_refinement::Error::Gguf(_)) => {
                failed(base, error)
            }
            error => {
                self.done();
                failed(base, error)
            }
        }
    }

    /// Hint about collected statistics, if there are any.
    pub fn resume_hint(&self) -> Option<String> {
        let path = self.path.display();
        let removes =
            if self.is_temporary { format!("; `{}` removes it", rm(&[&self.path])) } else { String::new() };
        self.path.is_dir().then(|| {
            format!("the statistics so far are in {path}; run the command again to continue{removes}")
        })
    }

    /// Removes the folder if it is temporary. Mapped files remain on Windows.
    pub fn done(&self) {
        if self.is_temporary {
            let _ = fs::remove_dir_all(&self.path);
        }
    }

    /// Removes what [`Folder::done`] could not remove because it was mapped. Warns about the rest.
    pub fn remove(&self, events: &dyn Events) {
        if self.is_temporary
            && let Err(error) = fs::remove_dir_all(&self.path)
            && self.path.exists()
        {
            events.warning(format!("{}: cannot remove temporary files: {error}", self.path.display()));
        }
    }
}
