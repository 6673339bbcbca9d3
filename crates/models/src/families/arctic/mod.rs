//! Arctic, by Snowflake.

pub mod convert;

use crate::family::Family;

/// Its architectures and projectors.
pub const FAMILY: Family = Family { arches: &[convert::ARCTIC], ..Family::EMPTY };
