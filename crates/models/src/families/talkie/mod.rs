//! Talkie.

pub mod convert;
pub mod graph;

use crate::family::Family;

pub const FAMILY: Family = Family { arches: &[convert::TALKIE], graphs: graph::GRAPHS, ..Family::EMPTY };
