//! Images for text models: pixels become embeddings that replace tokens.
//!
//! A projector is a file next to the text model (`general.architecture` is `clip`): a tower, which makes a
//! row of each patch of an image, and the layers that map these to the width of the model. Everything that a
//! tower needs is in the keys and tensors of its file; constants without a key are the same in every model of
//! a family and are in the family's file here.
//!
//! Sources: the models of transformers 5.23, and `tools/mtmd` of llama.cpp (llama-cpp-python 0.3.36), which
//! reads these files.

pub(crate) mod layer;
pub(crate) mod patches;
pub(crate) mod picture;
pub(crate) mod resample;
pub mod sizes;
pub(crate) mod tower;

use std::path::Path;

use rayon::ThreadPool;

pub use picture::Picture;

use crate::{
    Error, Model, Options,
    keys::Keys,
    pass::{Pass, Span},
    session::{Activations, Embedding},
    weights::Weights,
};
use tower::Opened;

/// A projector's file, ready to run.
pub struct Projector {
    opened: Opened,
    n_embd: usize,
    activations: Activations,
    pool: ThreadPool,
}

impl Projector {
    /// Opens the file at `path`.
    ///
    /// # Errors
    /// [`Error::NoProjector`] for another kind of file, [`Error::NoVisionTower`], [`Error::UnknownProjector`], and [`Error`] for a
    /// container, keys and tensors that are wrong.
    pub fn open(path: &Path, options: &Options) -> Result<Projector, Error> {
        Self::new(gguf_container::Model::open(path)?, options)
    }

    /// Takes a file that is open.
    ///
    /// # Errors
    /// As [`Projector::open`].
    pub fn new(file: gguf_container::Model, options: &Options) -> Result<Projector, Error> {
        let keys = Keys::new(file.metadata())?;
        if keys.architecture != "clip" {
            return Err(Error::NoProjector { architecture: keys.architecture });
        }
        if !keys.flag("has_vision_encoder", false)? {
            return Err(Error::NoVisionTower);
        }
        let mut weights = Weights::new(&file);
        let kind = match keys.text("vision.projector_type")? {
            Some(kind) => kind,
            None => keys.text("projector_type")?.ok_or_else(|| keys.missing("projector_type"))?,
        };
        let row = options.graphs.projectors.iter().find(|row| row.name == kind);
        let row = row.ok_or_else(|| Error::UnknownProjector { name: kind.to_owned() })?;
        let n_embd = keys.need_count("vision.projection_dim")?;
        let opened = (row.open)(&keys, &mut weights, n_embd)?;
        if keys.flag("has_audio_encoder", false)? {
            // The audio encoder in the same file.
            weights.ignore_beginning(&["a.", "mm.a."]);
        }
        weights.check_all_known(&format!("clip, {kind}"))?;
        let threads = options.threads.unwrap_or(0);
        let pool = crate::thread_pool(threads)?;
        Ok(Projector { opened, n_embd, activations: options.activations, pool })
    }

    /// The length of its embeddings.
    pub fn n_embd(&self) -> usize {
        self.n_embd
    }

    /// Special tokens before and after an image's embeddings in a prompt, as text; empty for none.
    pub fn marks(&self) -> (&'static str, &'static str) {
        self.opened.marks
    }

    /// Fails unless a text model takes its embeddings.
    ///
    /// # Errors
    /// [`Error::NoPictureInput`], [`Error::ProjectorWidth`].
    pub fn check_fits(&self, model: &Model) -> Result<(), Error> {
        let (found, expected) = (self.n_embd, model.n_embd());
        if !model.takes_pictures() {
            return Err(Error::NoPictureInput { architecture: model.architecture().to_owned() });
        }
        if found != expected {
            return Err(Error::ProjectorWidth { found, expected });
        }
        Ok(())
    }

    /// Embeddings of an image, at most `max_tokens` if it is given and the family supports several sizes.
    ///
    /// # Errors
    /// [`Error::PictureShape`], [`Error::PictureSize`], and [`Error::TooLong`] for an image of more patches
    /// than the tower has positions.
    pub fn embed(&self, picture: &Picture, max_tokens: Option<usize>) -> Result<Embedding, Error> {
        let Opened { tower, filter, .. } = &self.opened;
        let size = tower.size(picture, max_tokens)?;
        self.pool.install(|| {
            let resized = resample::resize(picture, size, *filter)?;
            let (rows, columns) = tower.grid(size);
            let spans = vec![Span { rows: 0..rows * columns, position: 0, outputs: 0..0 }];
            let mut pass = Pass::new(Vec::new(), spans, self.activations, None, None);
            tower.run(&resized, &mut pass)
        })
    }
}
