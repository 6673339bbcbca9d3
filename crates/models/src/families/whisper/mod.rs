//! Whisper, by OpenAI, and the sound towers of other models that are made of it.

pub mod convert;
pub mod projector;

use crate::family::Family;

/// Its architectures and projectors.
pub const FAMILY: Family = Family {
    arches: &[convert::WHISPER],
    projectors: &[projector::AUDIOFLAMINGO3, projector::QWEN2AUDIO, projector::ULTRAVOX, projector::VOXTRAL],
};
