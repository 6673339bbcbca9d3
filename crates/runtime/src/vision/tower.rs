//! Interface of a tower.

use super::{picture::Picture, resample::Filter};
use crate::{Error, pass::Pass, session::Embedding};

/// A tower with its projector.
pub(super) trait Tower: Send + Sync {
    /// Size that an image is scaled to, as (width, height), with at most `max_tokens` embeddings if given.
    fn size(&self, picture: &Picture, max_tokens: Option<usize>) -> Result<(usize, usize), Error>;

    /// Patches of this size, in (rows, columns).
    fn grid(&self, size: (usize, usize)) -> (usize, usize);

    /// The embedding of a picture of such a size.
    fn run(&self, picture: &Picture, pass: &mut Pass<'_, '_>) -> Result<Embedding, Error>;
}

/// Result of opening a family's file.
pub(super) struct Opened {
    pub tower: Box<dyn Tower>,
    /// Filter for resizing images.
    pub filter: Filter,
    /// Special tokens before and after the embeddings in a prompt.
    pub marks: (&'static str, &'static str),
}
