//! WavTokenizer: the decoder of codes of sound.

pub mod convert;

use crate::family::Family;

/// Its architectures and projectors.
pub const FAMILY: Family = Family { arches: &[convert::WAVTOKENIZER], ..Family::EMPTY };
