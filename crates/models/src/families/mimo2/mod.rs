//! MiMo V2, by Xiaomi.

pub mod convert;
pub mod graph;

use crate::family::Family;

/// Its architectures and projectors.
pub const FAMILY: Family = Family { arches: &[convert::MIMO2], graphs: graph::GRAPHS, ..Family::EMPTY };
