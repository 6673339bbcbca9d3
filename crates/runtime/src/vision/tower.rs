//! Interface of a tower.

use super::{
    picture::Picture,
    resample::{self, Filter},
};
use crate::{Error, keys::Keys, pass::Pass, session::Embedding, weights::Weights};

/// A part of an image that a tower processes in one pass, and the text around its embeddings in a prompt.
pub struct Tile {
    /// Text before the embeddings, with special tokens.
    pub before: String,
    /// Pixels.
    pub picture: Picture,
    /// Text after the embeddings.
    pub after: String,
}

impl Tile {
    /// A tile without text.
    pub fn new(picture: Picture) -> Tile {
        Tile { before: String::new(), picture, after: String::new() }
    }
}

/// A tower with its projector.
pub trait Tower: Send + Sync {
    /// Size that an image is scaled to, as (width, height), with at most `max_tokens` embeddings if given.
    fn size(&self, picture: &Picture, max_tokens: Option<usize>) -> Result<(usize, usize), Error>;

    /// The tiles of a picture, in the order of a prompt. By default the entire picture is one tile of [`Tower::size`].
    fn tiles(
        &self,
        picture: &Picture,
        filter: Filter,
        max_tokens: Option<usize>,
    ) -> Result<Vec<Tile>, Error> {
        let size = self.size(picture, max_tokens)?;
        Ok(vec![Tile::new(resample::resize(picture, size, filter)?)])
    }

    /// Number of rows of a tile of this size in the layers: patches, and others such as a class embedding.
    fn n_rows(&self, size: (usize, usize)) -> usize;

    /// The embedding of a tile.
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
