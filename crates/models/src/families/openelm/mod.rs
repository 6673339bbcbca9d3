//! OpenELM, by Apple.

pub mod convert;
pub mod graph;

use crate::family::Family;

pub const FAMILY: Family = Family { arches: &[convert::OPENELM], graphs: graph::GRAPHS, ..Family::EMPTY };
