//! Interface of a tower.

use super::{picture::Picture, resample::Filter};
use crate::{Error, keys::Keys, pass::Pass, session::Embedding, weights::Weights};

/// A tower with its projector.
pub trait Tower: Send + Sync {
    /// Size that an image is scaled to, as (width, height), with at most `max_tokens` embeddings if given.
    fn size(&self, picture: &Picture, max_tokens: Option<usize>) -> Result<(usize, usize), Error>;

    /// Patches of this size, in (rows, columns).
    fn grid(&self, size: (usize, usize)) -> (usize, usize);

    /// The embedding of a picture of such a size.
    fn run(&self, picture: &Picture, pass: &mut Pass<'_, '_>) -> Result<Embedding, Error>;
}

/// Result of opening a family's file.
pub struct Opened {
    /// The tower with its projector.
    pub tower: Box<dyn Tower>,
    /// Filter for resizing images.
    pub filter: Filter,
    /// Special tokens before and after the embeddings in a prompt.
    pub marks: (&'static str, &'static str),
}

/// A projector that can be run.
#[derive(Clone, Copy)]
pub struct ProjectorKind {
    /// The value of `clip.projector_type` or `clip.vision.projector_type`.
    pub name: &'static str,
    /// Reads the tower of a file whose embeddings have the given length.
    pub open: fn(&Keys<'_>, &mut Weights<'_>, usize) -> Result<Opened, Error>,
}
