//! Maple: a mixture of experts with sliding windows.

pub mod convert;
pub mod graph;

use crate::family::Family;

pub const FAMILY: Family = Family { arches: &[convert::MAPLE], graphs: graph::GRAPHS, ..Family::EMPTY };
