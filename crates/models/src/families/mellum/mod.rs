//! Mellum 2, by JetBrains.

pub mod convert;
pub mod graph;

use crate::family::Family;

pub const FAMILY: Family = Family { arches: &[convert::MELLUM], graphs: graph::GRAPHS, ..Family::EMPTY };
