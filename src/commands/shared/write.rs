//! Writing planned files with everything that a person sees of it.

use std::path::PathBuf;

use convert::{Error, PlannedFile, RunOptions, Watch, Work};

use super::plan_report::Report;
use crate::ui::{Ui, cancel_on_interrupt, human_bytes};

/// Writes planned files with a progress bar, Ctrl-C and a line for each file.
///
/// # Errors
/// As the `write` of the crate `convert`.
pub(in crate::commands) fn write_and_report(
    works: &[Work<'_>],
    files: &[(PathBuf, PlannedFile)],
    force: bool,
    options: &RunOptions,
    report: &Report,
    ui: &Ui,
) -> Result<(), Error> {
    for line in report.fallbacks() {
        ui.warning(&line);
    }
    let cancel = cancel_on_interrupt();
    let progress = ui.progress(works.iter().map(|work| work.rows.input_bytes(work.rows.view().n_rows)).sum());
    let watch = Watch { cancel: &cancel, done: &|_, bytes| progress.add(bytes) };
    let outputs: Vec<_> = files.iter().map(|(path, file)| (path.as_path(), &file.plan)).collect();
    convert::write(works, &outputs, force, options, watch)?;
    drop(progress);
    for (path, file) in files {
        let (n_bytes, bits) = (file.plan.file_len(), file.bits_per_weight());
        let (path, size) = (path.display(), human_bytes(n_bytes));
        ui.status(&format!("wrote {path}: {n_bytes} bytes ({size}), {bits:.2} bits/weight"));
    }
    Ok(())
}
