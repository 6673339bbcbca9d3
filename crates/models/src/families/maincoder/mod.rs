//! Maincoder, by Maincode.

pub mod convert;

use crate::family::Family;

/// Its architectures and projectors.
pub const FAMILY: Family = Family { arches: &[convert::MAINCODER], ..Family::EMPTY };
