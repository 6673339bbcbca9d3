//! openPangu Embedded, by Huawei.

pub mod convert;

use crate::family::Family;

/// Its architectures and projectors.
pub const FAMILY: Family = Family { arches: &[convert::PANGU], ..Family::EMPTY };
