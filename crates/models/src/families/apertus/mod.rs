//! Apertus, by the Swiss AI Initiative.

pub mod convert;
pub mod graph;

use crate::family::Family;

pub const FAMILY: Family = Family { arches: &[convert::APERTUS], graphs: graph::GRAPHS, ..Family::EMPTY };
