//! Refact, by Small Magellanic Cloud AI.

pub mod convert;

use crate::family::Family;

/// Its architectures and projectors.
pub const FAMILY: Family = Family { arches: &[convert::REFACT], ..Family::EMPTY };
