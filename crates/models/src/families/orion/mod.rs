//! Orion, by OrionStar.

pub mod convert;
pub mod graph;

use crate::family::Family;

pub const FAMILY: Family = Family { arches: &[convert::ORION], graphs: graph::GRAPHS, ..Family::EMPTY };
