//! Apertus, by the Swiss AI Initiative.

pub mod convert;

use crate::family::Family;

/// Its architectures and projectors.
pub const FAMILY: Family = Family { arches: &[convert::APERTUS], ..Family::EMPTY };
