//! InternVL, by OpenGVLab: vision projectors for models of other families.

pub mod projector;

use crate::family::Family;

/// Its architectures and projectors.
pub const FAMILY: Family = Family { projectors: &[projector::INTERNVL], ..Family::EMPTY };
