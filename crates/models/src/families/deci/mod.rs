//! DeciLM, and the Nemotron models that were made with its search.

pub mod convert;

use crate::family::Family;

/// Its architectures and projectors.
pub const FAMILY: Family = Family { arches: &[convert::DECI], projectors: &[] };
