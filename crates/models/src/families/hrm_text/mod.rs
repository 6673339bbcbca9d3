//! HRM Text, by Sapient.

pub mod convert;
pub mod graph;

use crate::family::Family;

/// Its architectures and projectors.
pub const FAMILY: Family = Family { arches: &[convert::HRM_TEXT], graphs: graph::GRAPHS, ..Family::EMPTY };
