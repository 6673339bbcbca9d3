//! CodeShell, by WisdomShell.

pub mod convert;

use crate::family::Family;

/// Its architectures and projectors.
pub const FAMILY: Family = Family { arches: &[convert::CODESHELL], ..Family::EMPTY };
