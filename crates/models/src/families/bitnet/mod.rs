//! BitNet b1.58, by Microsoft.

pub mod convert;
pub mod graph;

use crate::family::Family;

pub const FAMILY: Family = Family { arches: &[convert::BITNET], graphs: graph::GRAPHS, ..Family::EMPTY };
