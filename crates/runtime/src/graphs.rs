//! Building blocks for the graphs of model families.
//!
//! A family states how its files are run as rows of [`Architecture`], [`vision::ProjectorKind`] and [`audio::EncoderKind`].
//! Most decoders are a [`Spec`], which states how they differ from the usual one:
//!
//! ```
//! use gguf_runtime::graphs::{Activation, Architecture, Spec};
//!
//! const GRAPHS: &[Architecture] = &[
//!     Architecture::decoder("arcee", Spec { activation: Activation::ReluSquared, ..Spec::DECODER }),
//! ];
//! ```
//!
//! A model with other mathematics implements [`Graph`].

pub use crate::Error;
pub use crate::architecture::{Architecture, Graphs, Open, Size};
pub use crate::classifier::ClassifierSpec;
pub use crate::cross_attention;
pub use crate::decoder::spec::{
    Alibi, EmbeddingScale, Gating, IndexerSpec, LogitScale, MemorySpec, ResidualScale, RopeLayers,
    ScoreScale, SlidingBase, SlidingWindow, SoftCaps, Spec, Temperature, YarnMscale,
};
pub use crate::decoder::{Linear, Mlp, SelfAttention};
pub use crate::draft_graph::{Draft, DraftKind, OpenDraft, Read, target_ids};
pub use crate::graph::{Encoded, Graph, Head, Prepared};
pub use crate::keys::Keys;
pub use crate::ops::{Activation, Attention, Mask, Norm, NormKind, Rope, RopeKind, Rows, dense};
pub use crate::pass::Pass;
pub use crate::session::{Activations, Embedding, Features, KeyValue, Seen, Session};
pub use crate::state_size::StateSize;
pub use crate::weights::{Weight, Weights};

/// Parts of audio encoders.
pub mod audio {
    pub use crate::audio::convolution::{Convolution, Inner, PlaneConvolution};
    pub use crate::audio::encoder::{Encoder, Layers, n_mels, pooled, stacked};
    pub use crate::audio::listener::{EncoderKind, Listener, Listening};
    pub use crate::audio::spectrogram::{Bands, Dft, HOP, LogMel, RATE, htk_bands, in_bands};
    pub use crate::audio::windows::{Division, Window, windows};
}

/// Parts of vision towers.
pub mod vision {
    pub use crate::vision::layer::{Form, Layer, Matrix, SelfAttention};
    pub use crate::vision::patches::{
        Colors, Convolution, Patches, Windows, by_squares, by_windows, joined_squares, mean_of_squares,
        raster, split_rows,
    };
    pub use crate::vision::picture::Picture;
    pub use crate::vision::positions::{Between, Place};
    pub use crate::vision::resample::{Filter, resize};
    pub use crate::vision::sizes;
    pub use crate::vision::tiles;
    pub use crate::vision::tower::{Opened, ProjectorKind, Tile, Tower};
    pub use crate::vision::trunk::{Projection, Shape, Trunk};
}
