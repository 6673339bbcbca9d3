//! BLOOM and BLOOMZ, by BigScience.

pub mod convert;
pub mod graph;

use crate::family::Family;

pub const FAMILY: Family = Family { arches: &[convert::BLOOM], graphs: graph::GRAPHS, ..Family::EMPTY };
