//! CodeShell, by WisdomShell.

pub mod convert;
pub mod graph;

use crate::family::Family;

/// Its architectures and projectors.
pub const FAMILY: Family = Family { arches: &[convert::CODESHELL], graphs: graph::GRAPHS, ..Family::EMPTY };
