//! Facts about an interrupted run.

use std::{path::PathBuf, time::Duration};

/// An interrupted run that can be resumed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unfinished {
    /// Files that it left: the journal first, then temporary files.
    pub files: Vec<PathBuf>,
    /// The outputs that it was to write, without their folder.
    pub outputs: Vec<String>,
    /// Bytes of them that are done.
    pub done_bytes: u64,
    /// Bytes of all of them.
    pub total_bytes: u64,
    /// Time since it was last written to, where the system says that.
    pub age: Option<Duration>,
}
