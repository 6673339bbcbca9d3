//! Jamba, by AI21: a hybrid of state spaces and attention.

pub mod convert;

use crate::family::Family;

/// Its architectures and projectors.
pub const FAMILY: Family = Family { arches: &[convert::JAMBA], ..Family::EMPTY };
