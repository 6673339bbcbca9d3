//! GroveMoE, by inclusionAI.

pub mod convert;
pub mod graph;

use crate::family::Family;

pub const FAMILY: Family = Family { arches: &[convert::GROVEMOE], graphs: graph::GRAPHS, ..Family::EMPTY };
