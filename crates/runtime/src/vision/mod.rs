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
pub(crate) mod positions;
pub(crate) mod resample;
pub mod sizes;
pub mod tiles;
pub(crate) mod tower;
pub(crate) mod trunk;

use std::path::Path;

use rayon::ThreadPool;

pub use picture::Picture;

use crate::audio::{self, Sound, listener::Listening};
use crate::{
    Error, Model, Options,
    keys::Keys,
    pass::{Pass, Span},
    session::{Activations, Embedding},
    weights::Weights,
};
use tower::{Opened, Tile};

/// A projector's file, ready to run: a vision tower, an audio encoder, or both.
pub struct Projector {
    tower: Part<Opened>,
    encoder: Part<Listening>,
    n_embd: usize,
    activations: Activations,
    pool: ThreadPool,
}

/// A tower or encoder of a projector.
enum Part<T> {
    /// The file has none.
    Missing,
    /// The file has one whose projector type is unknown.
    Unknown(String),
    /// The file has one.
    Opened(T),
}

impl<T> Part<T> {
    /// The part, if it can be run.
    fn get(&self, missing: Error) -> Result<&T, Error> {
        match self {
            Part::Missing => Err(missing),
            Part::Unknown(name) => Err(Error::UnknownProjector { name: name.clone() }),
            Part::Opened(opened) => Ok(opened),
        }
    }
}

impl Projector {
    /// Opens the file at `path`.
    ///
    /// # Errors
    /// [`Error::NoProjector`] for another kind of file, [`Error::NoVisionTower`] for a file without any part,
    /// [`Error::UnknownProjector`] if no part can be run, and [`Error`] for a container, keys and tensors that are wrong.
    pub fn open(path: &Path, options: &Options) -> Result<Projector, Error> {
        Self::new(gguf_container::Model::open(path)?, options)
    }

    /// Takes a file that is open.
    pub fn new(file: gguf_container::Model, options: &Options) -> Result<Projector, Error> {
        let keys = Keys::new(file.metadata())?;
        if keys.architecture != "clip" {
            return Err(Error::NoProjector { architecture: keys.architecture });
        }
        let mut weights = Weights::new(&file);
        // A file with one part may have only the common key.
        let kind = |part: &str| -> Result<&str, Error> {
            match keys.text(&format!("{part}.projector_type"))? {
                Some(kind) => Ok(kind),
                None => keys.text("projector_type")?.ok_or_else(|| keys.missing("projector_type")),
            }
        };
        let (mut n_embd, mut kinds) = (None, Vec::new());
        let mut tower = Part::Missing;
        if keys.flag("has_vision_encoder", false)? {
            let kind = kind("vision")?;
            kinds.push(kind);
            tower = match options.graphs.projectors.iter().find(|row| row.name == kind) {
                None => Part::Unknown(kind.to_owned()),
                Some(row) => {
                    let n_out = *n_embd.insert(keys.need_count("vision.projection_dim")?);
                    Part::Opened((row.open)(&keys, &mut weights, n_out)?)
                }
            };
        }
        let mut encoder = Part::Missing;
        if keys.flag("has_audio_encoder", false)? {
            let kind = kind("audio")?;
            kinds.push(kind);
            encoder = match options.graphs.encoders.iter().find(|row| row.name == kind) {
                None => Part::Unknown(kind.to_owned()),
                Some(row) => {
                    let n_out = keys.need_count("audio.projection_dim")?;
                    if *n_embd.get_or_insert(n_out) != n_out {
                        return Err(keys.wrong("audio.projection_dim", "the length of image embeddings"));
                    }
                    Part::Opened((row.open)(&keys, &mut weights, n_out)?)
                }
            };
        }
        let n_embd = match (n_embd, &tower, &encoder) {
            (Some(n_embd), ..) => n_embd,
            (None, Part::Unknown(name), _) | (None, _, Part::Unknown(name)) => {
                return Err(Error::UnknownProjector { name: name.clone() });
            }
            _ => return Err(keys.missing("has_vision_encoder")),
        };
        // Tensors of a part that cannot be run.
        let of_audio = |name: &str| name.starts_with("a.") || name.starts_with("mm.a.");
        if matches!(encoder, Part::Unknown(_)) {
            weights.ignore_where(of_audio);
        }
        if matches!(tower, Part::Unknown(_)) {
            weights.ignore_where(|name| !of_audio(name));
        }
        weights.check_all_known(&format!("clip, {}", kinds.join(" and ")))?;
        let threads = options.threads.unwrap_or(0);
        let pool = crate::thread_pool(threads)?;
        Ok(Projector { tower, encoder, n_embd, activations: options.activations, pool })
    }

    /// The length of its embeddings.
    pub fn n_embd(&self) -> usize {
        self.n_embd
    }

    /// Special tokens before and after an image's embeddings in a prompt, as text; empty for none.
    pub fn marks(&self) -> (&'static str, &'static str) {
        if let Part::Opened(tower) = &self.tower { tower.marks } else { ("", "") }
    }

    /// Like this, for a sound's embeddings.
    pub fn sound_marks(&self) -> (&'static str, &'static str) {
        if let Part::Opened(encoder) = &self.encoder { encoder.marks } else { ("", "") }
    }

    /// Maximum length of a sound in seconds, if there is one. Longer sounds are cut.
    pub fn max_seconds(&self) -> Option<f64> {
        let Part::Opened(encoder) = &self.encoder else { return None };
        encoder.max_samples.map(|n| n as f64 / f64::from(encoder.rate))
    }

    /// Fails unless the file has a vision tower that can be run.
    ///
    /// # Errors
    /// [`Error::NoVisionTower`], [`Error::UnknownProjector`].
    pub fn check_vision(&self) -> Result<(), Error> {
        self.tower.get(Error::NoVisionTower).map(drop)
    }

    /// Fails unless the file has an audio encoder that can be run.
    ///
    /// # Errors
    /// [`Error::NoAudioEncoder`], [`Error::UnknownProjector`].
    pub fn check_audio(&self) -> Result<(), Error> {
        self.encoder.get(Error::NoAudioEncoder).map(drop)
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

    /// Embeddings of an image, at most `max_tokens` if it is given and the family supports several sizes. Some families divide an
    /// image into tiles.
    ///
    /// # Errors
    /// [`Error::NoVisionTower`], [`Error::UnknownProjector`], [`Error::PictureShape`], [`Error::PictureSize`], and
    /// [`Error::TooLong`] for an image of more patches than the tower has positions.
    pub fn embed(&self, picture: &Picture, max_tokens: Option<usize>) -> Result<Vec<TileEmbedding>, Error> {
        let Opened { tower, filter, .. } = self.tower.get(Error::NoVisionTower)?;
        self.pool.install(|| {
            let tiles = tower.tiles(picture, *filter, max_tokens)?;
            let embed = |Tile { before, picture, after }: Tile| {
                let n_rows = tower.n_rows((picture.width(), picture.height()));
                let spans = vec![Span { rows: 0..n_rows, position: 0, outputs: 0..0 }];
                let mut pass = Pass::new(Vec::new(), spans, self.activations, None, None);
                Ok(TileEmbedding { before, embedding: tower.run(&picture, &mut pass)?, after })
            };
            tiles.into_iter().map(embed).collect()
        })
    }

    /// Embedding of a sound.
    ///
    /// # Errors
    /// [`Error::NoAudioEncoder`], [`Error::UnknownProjector`], [`Error::ShortSound`], and the errors of the encoder.
    pub fn embed_sound(&self, sound: &Sound) -> Result<Embedding, Error> {
        let encoder = self.encoder.get(Error::NoAudioEncoder)?;
        self.pool.install(|| audio::embed(encoder, sound, self.activations))
    }
}

/// Embeddings of a tile of an image, and the text around them in a prompt, between the projector's marks.
#[derive(Debug, Clone)]
pub struct TileEmbedding {
    /// Text before the embeddings, with special tokens.
    pub before: String,
    /// The embeddings.
    pub embedding: Embedding,
    /// Text after the embeddings.
    pub after: String,
}
