//! Spark X2.5, by iFlytek.

pub mod convert;

use crate::family::Family;

/// Its architectures and projectors.
pub const FAMILY: Family = Family { arches: &[convert::SPARK2_5], ..Family::EMPTY };
