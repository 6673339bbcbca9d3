//! One conversion on several machines: each computes a part, and one assembles them.
//!
//! A part is a share of the run's jobs ([`Share`]), with its own journal next to the first output. Its rows
//! go to their places in the output's temporary file, which all machines see, or to a separate sparse file
//! ([`Place`]). An interrupted part resumes when it is run again. [`assemble`] trusts no part: it compares
//! plan, coverage and every checksum before the output gets its name.

mod assemble;
mod names;
mod share;
mod write;

use std::path::Path;

use crate::{
    Error,
    journal::{Fingerprint, Found},
};
pub use assemble::assemble;
pub use names::{Place, part_path};
pub use share::{Rates, Share};
pub use write::{Part, Written, share_bytes, write_part};

/// Checks that a journal belongs to this plan.
fn same_plan(found: &Found, fingerprint: &Fingerprint, journal: &Path) -> Result<(), Error> {
    // All differences, since one change often causes another.
    let differences = found.differences(fingerprint);
    if differences.is_empty() {
        Ok(())
    } else {
        Err(Error::OtherPlan { path: journal.to_owned(), differences })
    }
}
