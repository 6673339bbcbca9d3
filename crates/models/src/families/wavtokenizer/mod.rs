//! WavTokenizer: the decoder of audio codes.

pub mod convert;

use crate::family::Family;

pub const FAMILY: Family = Family { arches: &[convert::WAVTOKENIZER], ..Family::EMPTY };
