//! Baichuan 1 and 2, by Baichuan.

pub mod convert;
pub mod graph;

use crate::family::Family;

/// Its architectures and projectors.
pub const FAMILY: Family = Family { arches: &[convert::BAICHUAN], graphs: graph::GRAPHS, ..Family::EMPTY };
