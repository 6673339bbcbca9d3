//! BitNet b1.58, by Microsoft.

pub mod convert;

use crate::family::Family;

/// Its architectures and projectors.
pub const FAMILY: Family = Family { arches: &[convert::BITNET], ..Family::EMPTY };
