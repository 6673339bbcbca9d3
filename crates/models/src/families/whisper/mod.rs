//! Whisper, by OpenAI, and sound towers of other models that are based on it.

pub mod audio;
pub mod convert;
pub mod foreign;
pub mod graph;
pub mod projector;

use crate::family::Family;
use gguf_layout::Quantization;

pub const FAMILY: Family = Family {
    arches: &[convert::WHISPER],
    projectors: &[projector::AUDIOFLAMINGO3, projector::QWEN2AUDIO, projector::ULTRAVOX, projector::VOXTRAL],
    quantization: &[
        // The reference has no such architecture.
        Quantization {
            architecture: "whisper",
            kept: &["pos_embd", "conv1d"],
            kept_because: "a position embedding or a short convolution",
            ..Quantization::USUAL
        },
    ],
    foreign: &[foreign::WHISPER_CPP],
    graphs: graph::GRAPHS,
    encoders: audio::ENCODERS,
    ..Family::EMPTY
};
