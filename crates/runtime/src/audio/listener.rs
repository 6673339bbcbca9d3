//! Interface of an audio encoder.

use crate::{
    Error,
    keys::Keys,
    session::{Activations, Embedding},
    weights::Weights,
};

/// An audio encoder with its projector.
pub trait Listener: Send + Sync {
    /// Returns the embedding of samples at the encoder's rate.
    fn run(&self, samples: &[f32], activations: Activations) -> Result<Embedding, Error>;
}

/// Result of opening a family's file.
pub struct Listening {
    /// The encoder with its projector.
    pub listener: Box<dyn Listener>,
    /// Samples per second.
    pub rate: u32,
    /// Maximum number of samples that the family's processor uses; it drops the rest of a longer sound.
    pub max_samples: Option<usize>,
    /// Special tokens before and after the embeddings in a prompt; empty for none.
    pub marks: (&'static str, &'static str),
}

/// An audio encoder that can be run.
#[derive(Clone, Copy)]
pub struct EncoderKind {
    /// The value of `clip.projector_type` or `clip.audio.projector_type`.
    pub name: &'static str,
    /// Reads the encoder of a file. The last argument is the length of its embeddings.
    pub open: fn(&Keys<'_>, &mut Weights<'_>, usize) -> Result<Listening, Error>,
}
