//! Chameleon, by Meta.

pub mod convert;
pub mod graph;

use crate::family::Family;

pub const FAMILY: Family = Family { arches: &[convert::CHAMELEON], graphs: graph::GRAPHS, ..Family::EMPTY };
