//! Bamba, by IBM: a hybrid of state-space and attention layers.

pub mod convert;

use crate::family::Family;

/// Its architectures and projectors.
pub const FAMILY: Family = Family { arches: &[convert::BAMBA], ..Family::EMPTY };
