//! BLOOM and BLOOMZ, by BigScience.

pub mod convert;

use crate::family::Family;

/// Its architectures and projectors.
pub const FAMILY: Family = Family { arches: &[convert::BLOOM], ..Family::EMPTY };
