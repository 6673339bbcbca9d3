//! Laguna, by Poolside.

pub mod convert;
pub mod graph;

use crate::family::Family;

/// Its architectures and projectors.
pub const FAMILY: Family = Family { arches: &[convert::LAGUNA], graphs: graph::GRAPHS, ..Family::EMPTY };
