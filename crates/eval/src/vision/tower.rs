//! What a tower is.

use super::{picture::Picture, resample::Filter};
use crate::{Error, pass::Pass, session::Embedding};

/// A tower with its projector.
pub(super) trait Tower: Send + Sync {
    /// The size that a picture is given, as (width, height), with at most `max_tokens` embeddings where that is said.
    fn size(&self, picture: &Picture, max_tokens: Option<usize>) -> Result<(usize, usize), Error>;

    /// Patches of this size, in (rows, columns).
    fn grid(&self, size: (usize, usize)) -> (usize, usize);

    /// The embedding of a picture of such a size.
    fn run(&self, picture: &Picture, pass: &mut Pass<'_, '_>) -> Result<Embedding, Error>;
}

/// What a family's file gives.
pub(super) struct Opened {
    pub tower: Box<dyn Tower>,
    /// How pictures are given another size.
    pub filter: Filter,
    /// What stands before and behind the embeddings in a prompt.
    pub marks: (&'static str, &'static str),
}
