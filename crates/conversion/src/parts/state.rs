//! State of a part, reconstructed from its journal.

use std::path::Path;

use crate::{
    Error,
    job::{Job, TensorTask},
    journal::{Done, Fingerprint, Found},
    run::Watch,
};

/// Fails where a journal is that of another plan.
pub(super) fn same_plan(found: &Found, fingerprint: &Fingerprint, journal: &Path) -> Result<(), Error> {
    // All of them, since one change often brings another: who sees both knows which came first.
    let differences: Vec<String> =
        found.fingerprint.iter().flat_map(|earlier| fingerprint.differences(earlier)).collect();
    match differences.is_empty() {
        true => Ok(()),
        false => Err(Error::OtherPlan { path: journal.to_owned(), differences }),
    }
}

/// Rows that need not be done are progress too.
pub(super) fn report_done(done: &Done, tasks: &[TensorTask<'_>], watch: Watch<'_>) {
    // The bar counts input, whatever is done with it.
    let rows = done.rows.clone();
    let input_bytes = tasks[done.task].rows.input_bytes(rows.end - rows.start);
    (watch.done)(&Job { task: done.task, rows }, input_bytes);
}
