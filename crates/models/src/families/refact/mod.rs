//! Refact, by Small Magellanic Cloud AI.

pub mod convert;
pub mod graph;

use crate::family::Family;

pub const FAMILY: Family = Family { arches: &[convert::REFACT], graphs: graph::GRAPHS, ..Family::EMPTY };
