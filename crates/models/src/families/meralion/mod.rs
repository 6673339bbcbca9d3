//! MERaLiON, by I2R: audio projectors for models of the gemma family.

pub mod audio;
pub mod projector;

use crate::family::Family;

pub const FAMILY: Family =
    Family { projectors: &[projector::MERALION], encoders: audio::ENCODERS, ..Family::EMPTY };
