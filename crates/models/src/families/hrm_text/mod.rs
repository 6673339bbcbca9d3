//! HRM Text, by Sapient.

pub mod convert;

use crate::family::Family;

/// Its architectures and projectors.
pub const FAMILY: Family = Family { arches: &[convert::HRM_TEXT], ..Family::EMPTY };
