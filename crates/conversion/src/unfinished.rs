//! Facts about an interrupted run.

use std::{path::PathBuf, time::Duration};

/// An interrupted run that can be resumed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unfinished {
    /// Leftover files: the journal first, then temporary files.
    pub files: Vec<PathBuf>,
    /// Names of its outputs, without their folder.
    pub outputs: Vec<String>,
    /// Bytes that are done.
    pub done_bytes: u64,
    /// Total bytes.
    pub total_bytes: u64,
    /// Time since the last write, if known.
    pub age: Option<Duration>,
}
