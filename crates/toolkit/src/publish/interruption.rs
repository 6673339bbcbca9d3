//! Interruptions of a publication, which another run continues.

use crate::{
    error::Error,
    events::{Events, Guard},
};

/// Hint for an interrupted run.
const RESUMES: &str = "run the same command again to continue; finished stages and measured chunks are kept";

/// The error of an interrupted run.
pub fn interrupted() -> Error {
    Error::interrupted().hint([RESUMES])
}

/// Until the result is dropped, an interruption may end the process at once: unfinished work is repeated.
pub fn ends_soon(events: &dyn Events) -> Box<dyn Guard + '_> {
    events.ends_soon(Box::new(interrupted))
}
