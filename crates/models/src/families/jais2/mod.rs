//! Jais 2, by Inception.

pub mod convert;

use crate::family::Family;

/// Its architectures and projectors.
pub const FAMILY: Family = Family { arches: &[convert::JAIS2], projectors: &[] };
