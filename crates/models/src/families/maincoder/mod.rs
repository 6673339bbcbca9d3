//! Maincoder, by Maincode.

pub mod convert;
pub mod graph;

use crate::family::Family;

/// Its architectures and projectors.
pub const FAMILY: Family = Family { arches: &[convert::MAINCODER], graphs: graph::GRAPHS, ..Family::EMPTY };
