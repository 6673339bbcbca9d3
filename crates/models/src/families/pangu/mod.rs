//! openPangu Embedded, by Huawei.

pub mod convert;
pub mod graph;

use crate::family::Family;

/// Its architectures and projectors.
pub const FAMILY: Family = Family { arches: &[convert::PANGU], graphs: graph::GRAPHS, ..Family::EMPTY };
