//! OpenELM, by Apple.

pub mod convert;

use crate::family::Family;

/// Its architectures and projectors.
pub const FAMILY: Family = Family { arches: &[convert::OPENELM], ..Family::EMPTY };
