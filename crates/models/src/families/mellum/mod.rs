//! Mellum 2, by JetBrains.

pub mod convert;

use crate::family::Family;

/// Its architectures and projectors.
pub const FAMILY: Family = Family { arches: &[convert::MELLUM], ..Family::EMPTY };
