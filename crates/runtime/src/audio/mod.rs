//! Sounds for text models: samples become embeddings that replace tokens.
//!
//! A file is decoded ([`Sound`]), resampled to the encoder's rate, and turned into a spectrogram. An encoder turns it into rows,
//! and a projector maps them to the width of the text model. The encoder of a family is in the family's folder; most are based on
//! Whisper's.

pub(crate) mod convolution;
pub(crate) mod encoder;
pub(crate) mod listener;
pub(crate) mod resample;
pub(crate) mod sound;
pub(crate) mod spectrogram;
pub(crate) mod windows;

pub use resample::resample;
pub use sound::Sound;
pub use spectrogram::LogMel;

use crate::{
    Error,
    session::{Activations, Embedding},
};
use listener::Listening;

/// The embedding of a sound, computed in the thread pool of the caller. Samples beyond the encoder's limit are ignored.
pub(crate) fn embed(
    listening: &Listening,
    sound: &Sound,
    activations: Activations,
) -> Result<Embedding, Error> {
    let Listening { listener, rate, max_samples, .. } = listening;
    let samples = resample(sound.samples(), sound.rate(), *rate);
    let most = max_samples.unwrap_or(usize::MAX);
    let embedding = listener.run(&samples[..samples.len().min(most)], activations)?;
    match embedding.n_rows() {
        0 => Err(Error::ShortSound { milliseconds: (1000.0 * sound.seconds()) as usize }),
        _ => Ok(embedding),
    }
}
