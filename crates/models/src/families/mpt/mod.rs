//! MPT, by MosaicML.

pub mod convert;
pub mod graph;

use crate::family::Family;

pub const FAMILY: Family = Family { arches: &[convert::MPT], graphs: graph::GRAPHS, ..Family::EMPTY };
