//! Baichuan 1 and 2, by Baichuan.

pub mod convert;

use crate::family::Family;

/// Its architectures and projectors.
pub const FAMILY: Family = Family { arches: &[convert::BAICHUAN], ..Family::EMPTY };
